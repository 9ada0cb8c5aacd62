"""The words that head columns of label tables, in six languages.

Without case, accents, spaces, `_`, `-`, `.` and units; of each role the likeliest first.
"""

LIBRARIES: tuple[str, ...] = ()

SPELLINGS = {
    "image": (
        "filename file filepath imagefilename imagefile imagepath imagename image imageid img "
        "imgid imgname imgfile imgpath imageids filenames path imagefilepath "
        "imgfilename imgfilepath fileid imageuri imageurl imageno imagenumber imagenr pictureid "
        "picture picturename picturefile picturepath pic picid photo photoid photoname photofile "
        "frame framename fname uri url bild bilddatei bildname bildpfad bildnr bildnummer bildid "
        "datei dateiname dateipfad pfad aufnahme foto fotos fichier nomfichier nomdufichier "
        "nomdefichier chemin cheminfichier idimage nomimage nomdelimage numeroimage imagen "
        "idimagen nombreimagen nombredeimagen nombredelaimagen archivo nombrearchivo "
        "nombredearchivo nombredelarchivo fichero ruta 文件名 文件名称 文件 文件路径 图像编号 "
        "图像 图像名 图像名称 图像文件 图像文件名 图像路径 图像id 图片 图片编号 图片名 图片名称 "
        "图片文件 图片文件名 图片路径 图片id 照片 照片编号 路径 圖像 圖像編號 圖片 圖片編號 "
        "圖片名稱 檔名 檔案 檔案名稱 檔案名 路徑 画像 画像名 画像ファイル 画像ファイル名 "
        "画像番号 画像id 画像パス ファイル ファイル名 ファイルパス パス 写真 写真名"
    ),
    "label": (
        "label labels labelname classname class classes classlabel cls category categoryname "
        "categories defect defectname defecttype defectclass tag tags target annotation verdict "
        "result grade groundtruth groundtruthlabel truelabel gt type diagnosis quality fault "
        "faulttype flaw judgement judgment decision status okng oknok classification classid "
        "labelid categoryid classindex labelindex klasse klassen klassenname kategorie etikett "
        "fehler fehlerart fehlertyp fehlerklasse fehlername defekt defektart befund ergebnis "
        "bewertung bezeichnung classe nomclasse etiquette categorie defaut typedefaut "
        "typededefaut resultat clase etiqueta categoria defecto tipodefecto tipodedefecto "
        "resultado 类别 类别名称 类别名 类 类名 标签 标签名 标注 标记 缺陷 缺陷类型 缺陷类别 "
        "缺陷名称 目标类别 类别id 类别编号 标签id 缺陷种类 分类 种类 判定 检测结果 结果 等级 "
        "类型 類別 標籤 標註 缺陷類型 缺陷類別 分類 種類 結果 類型 ラベル ラベル名 クラス "
        "クラス名 カテゴリ カテゴリー 種別 欠陥 欠陥名 欠陥種類 不良名 不良種類 判定結果"
    ),
    "x": (
        "x xmin x1 x0 left xleft minx xtl topleftx xtopleft xstart startx xcoord xcoordinate "
        "coordx xpos xposition posx xkoordinate links coordonneex coordenadax gauche izquierda "
        "x坐标 x座標 坐标x 座標x 左 左边 左上x 左上角x 左上x坐标 左上角x坐标 x最小 x最小值 "
        "横坐标 左上横坐标 起点x 左端"
    ),
    "y": (
        "y ymin y1 y0 top ytop miny ytl toplefty ytopleft ystart starty ycoord ycoordinate "
        "coordy ypos yposition posy ykoordinate oben coordonneey coordenaday haut arriba y坐标 "
        "y座標 坐标y 座標y 上 上边 左上y 左上角y 左上y坐标 左上角y坐标 y最小 y最小值 纵坐标 "
        "左上纵坐标 起点y 上端"
    ),
    "width": "width w wd dx breite largeur ancho anchura 宽 宽度 框宽 寬 寬度 幅 横幅",
    "height": "height h ht dy hohe hoehe hauteur alto altura 高 高度 框高 高さ",
    "x2": (
        "x2 xmax right xright maxx xbr bottomrightx xbottomright xend endx rechts droite derecha "
        "x2坐标 x2座標 右 右边 右下x 右下角x 右下x坐标 右下角x坐标 x最大 x最大值 右下横坐标 "
        "终点x 右端"
    ),
    "y2": (
        "y2 ymax bottom ybottom maxy ybr bottomrighty ybottomright yend endy unten bas abajo "
        "y2坐标 y2座標 下 下边 右下y 右下角y 右下y坐标 右下角y坐标 y最大 y最大值 右下纵坐标 "
        "终点y 下端"
    ),
    "center_x": "centerx xcenter centrex xcentre cx xc xmid 中心x 中心x坐标 中心点x x中心",
    "center_y": "centery ycenter centrey ycentre cy yc ymid 中心y 中心y坐标 中心点y y中心",
    "split": (
        "split subset set partition datasplit datasetsplit aufteilung teilmenge jeu ensemble "
        "conjunto particion 划分 数据划分 集合 子集 劃分 分割 データ分割"
    ),
    "group": (
        "group groupid part partid partno partnumber partnr serialnumber serialno serial sn "
        "workpiece workpieceid piece pieceid lot lotid lotno lotnumber batch batchid batchno "
        "batchnumber coil coilid wafer waferid patient patientid subject subjectid video videoid "
        "gruppe teil teilnr teilenummer teilenr werkstuck werkstucknr seriennummer charge "
        "chargennummer los losnummer groupe numerodeserie grupo lote pieza 组 组别 分组 批次 "
        "批号 批次号 工件 工件号 工件编号 零件 零件号 零件编号 序列号 产品编号 批號 序號 "
        "グループ ロット ロット番号 部品 部品番号 製造番号"
    ),
    "time": (
        "timestamp datetime time date capturetime capturedat captured captureddate acquired "
        "acquisitiontime zeitstempel zeit datum uhrzeit aufnahmezeit aufnahmedatum horodatage "
        "heure fecha hora fechayhora 时间戳 时间 日期 拍摄时间 采集时间 時間 拍攝時間 日時 日付 "
        "撮影日時"
    ),
}
