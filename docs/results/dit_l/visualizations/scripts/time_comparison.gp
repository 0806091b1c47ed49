# gnuplot scripts/time_comparison.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,600 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,600 noenhanced
}
set output 'time_comparison.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Time of a step: average, and fastest to slowest'
set ylabel 'step (ms)'
set yrange [0:*]
set xtics ('seq 1024' 0) norotate
set lmargin 12
set xrange [-0.7:0.7]
$t0 << EOD
-0.3333333333333333 10242.4892425 8554.025388 11930.953097
EOD
$t1 << EOD
-0.2 22762.055901 20238.899192 25285.21261
EOD
$t2 << EOD
-0.06666666666666667 19263.856708 18518.1803 20009.533116
EOD
$t3 << EOD
0.06666666666666667 18073.298700500003 16644.500479000002 19502.096922
EOD
$t4 << EOD
0.2 12059.6711715 11582.197263 12537.14508
EOD
$t5 << EOD
0.3333333333333333 11585.744171499999 11304.125675 11867.362668
EOD
plot $t0 using 1:2:(0.122667) with boxes lc rgb '#7d8799' title 'no_dp', \
  $t1 using 1:2:(0.122667) with boxes lc rgb '#1f77c9' title 'ghost', \
  $t2 using 1:2:(0.122667) with boxes lc rgb '#e69f00' title 'flash', \
  $t3 using 1:2:(0.122667) with boxes lc rgb '#009e73' title 'bookkeeping', \
  $t4 using 1:2:(0.122667) with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  $t5 using 1:2:(0.122667) with boxes lc rgb '#7a52cc' title 'auto', \
  $t0 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t1 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t2 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t3 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t4 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t5 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle
