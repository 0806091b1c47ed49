# gnuplot scripts/memory_vs_time_tradeoff.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 1000,650 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 1000,650 noenhanced
}
set output 'memory_vs_time_tradeoff.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Memory against time: lower left is better'
set xlabel 'step (ms), fastest to slowest'
set ylabel 'peak memory (GiB)'
set grid xtics
set xrange [0:*]
set yrange [0:*]
set offsets 0, graph 0.05, graph 0.08, 0
$s0 << EOD
10242.4892425 7.776657521724701 8554.025388 11930.953097
EOD
$s1 << EOD
22762.055901 7.7922863233834505 20238.899192 25285.21261
EOD
$s2 << EOD
19263.856708 7.7922863233834505 18518.1803 20009.533116
EOD
$s3 << EOD
18073.298700500003 7.781155021861196 16644.500479000002 19502.096922
EOD
$s4 << EOD
12059.6711715 7.781155021861196 11582.197263 12537.14508
EOD
$s5 << EOD
11585.744171499999 7.761684929952025 11304.125675 11867.362668
EOD
plot $s0 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#7d8799' notitle, \
  $s1 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#1f77c9' notitle, \
  $s2 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#e69f00' notitle, \
  $s3 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#009e73' notitle, \
  $s4 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#cc5fa5' notitle, \
  $s5 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#7a52cc' notitle, \
  NaN with boxes lc rgb '#7d8799' title 'no_dp', \
  NaN with boxes lc rgb '#1f77c9' title 'ghost', \
  NaN with boxes lc rgb '#e69f00' title 'flash', \
  NaN with boxes lc rgb '#009e73' title 'bookkeeping', \
  NaN with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  NaN with boxes lc rgb '#7a52cc' title 'auto'
