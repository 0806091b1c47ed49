# gnuplot scripts/memory_comparison.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,600 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,600 noenhanced
}
set output 'memory_comparison.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Peak tensor memory a rank'
set ylabel 'peak memory (GiB)'
set yrange [0:*]
set xtics ('seq 1024' 0) norotate
set lmargin 12
set xrange [-0.7:0.7]
$m0 << EOD
-0.3333333333333333 7.776657521724701 7.776657521724701 7.776657521724701
EOD
$m1 << EOD
-0.2 7.7922863233834505 7.7922863233834505 7.7922863233834505
EOD
$m2 << EOD
-0.06666666666666667 7.7922863233834505 7.7922863233834505 7.7922863233834505
EOD
$m3 << EOD
0.06666666666666667 7.781155021861196 7.781155021861196 7.781155021861196
EOD
$m4 << EOD
0.2 7.781155021861196 7.781155021861196 7.781155021861196
EOD
$m5 << EOD
0.3333333333333333 7.761684929952025 7.761684929952025 7.761684929952025
EOD
plot $m0 using 1:2:(0.122667) with boxes lc rgb '#7d8799' title 'no_dp', \
  $m1 using 1:2:(0.122667) with boxes lc rgb '#1f77c9' title 'ghost', \
  $m2 using 1:2:(0.122667) with boxes lc rgb '#e69f00' title 'flash', \
  $m3 using 1:2:(0.122667) with boxes lc rgb '#009e73' title 'bookkeeping', \
  $m4 using 1:2:(0.122667) with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  $m5 using 1:2:(0.122667) with boxes lc rgb '#7a52cc' title 'auto'
