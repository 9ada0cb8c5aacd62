"""The cleaning steps, listed once: name to module."""

CHOICES = {
    "blur": "enginehouse.cleaners.blur",
    "clahe": "enginehouse.cleaners.clahe",
    "crop": "enginehouse.cleaners.crop",
    "denoise": "enginehouse.cleaners.denoise",
    "glare": "enginehouse.cleaners.glare",
}
