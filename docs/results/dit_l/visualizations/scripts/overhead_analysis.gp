# gnuplot scripts/overhead_analysis.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,900 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,900 noenhanced
}
set output 'overhead_analysis.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set multiplot layout 2,1
set rmargin 24
set xtics ('seq 1024' 0) norotate
set lmargin 12
set xrange [-0.7:0.7]
set xzeroaxis lt 1 lc rgb '#606060'
set yrange [*<0:0<*]
set title 'Memory of private steps over no_dp at the same shape'
set ylabel 'memory (MiB)'
$m0 << EOD
-0.2 16.00389289855957 16.00389289855957 16.00389289855957
EOD
$m1 << EOD
-0.06666666666666667 16.00389289855957 16.00389289855957 16.00389289855957
EOD
$m2 << EOD
0.06666666666666667 4.605440139770508 4.605440139770508 4.605440139770508
EOD
$m3 << EOD
0.2 4.605440139770508 4.605440139770508 4.605440139770508
EOD
$m4 << EOD
0.3333333333333333 -15.331933975219727 -15.331933975219727 -15.331933975219727
EOD
plot $m0 using 1:2:(0.122667) with boxes lc rgb '#1f77c9' title 'ghost', \
  $m1 using 1:2:(0.122667) with boxes lc rgb '#e69f00' title 'flash', \
  $m2 using 1:2:(0.122667) with boxes lc rgb '#009e73' title 'bookkeeping', \
  $m3 using 1:2:(0.122667) with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  $m4 using 1:2:(0.122667) with boxes lc rgb '#7a52cc' title 'auto'
set title 'Time of private steps over no_dp at the same shape'
set ylabel 'time (%)'
$t0 << EOD
-0.2 122.23167983961885 97.59746593651354 146.86589374272413
EOD
$t1 << EOD
-0.06666666666666667 88.07788079548963 80.7976543744952 95.3581072164841
EOD
$t2 << EOD
0.06666666666666667 76.45416336398954 62.50444676998646 90.40387995799254
EOD
$t3 << EOD
0.2 17.741604467201366 13.079906542064412 22.403302392338343
EOD
$t4 << EOD
0.3333333333333333 13.11453590233047 10.365023651622352 15.864048153038613
EOD
plot $t0 using 1:2:(0.122667) with boxes lc rgb '#1f77c9' title 'ghost', \
  $t1 using 1:2:(0.122667) with boxes lc rgb '#e69f00' title 'flash', \
  $t2 using 1:2:(0.122667) with boxes lc rgb '#009e73' title 'bookkeeping', \
  $t3 using 1:2:(0.122667) with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  $t4 using 1:2:(0.122667) with boxes lc rgb '#7a52cc' title 'auto', \
  $t0 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t1 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t2 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t3 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t4 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle
unset multiplot
