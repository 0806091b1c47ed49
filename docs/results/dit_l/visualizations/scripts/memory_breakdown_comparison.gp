# gnuplot scripts/memory_breakdown_comparison.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,700 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,700 noenhanced
}
set output 'memory_breakdown_comparison.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Tensor memory at the peak, by what it is for'
set ylabel 'memory of the largest rank (GiB)'
set yrange [0:*]
set xtics ('no_dp, seq 1024' 0, 'ghost, seq 1024' 1, 'flash, seq 1024' 2, 'bookkeeping, seq 1024' 3, 'flash_bookkeeping, seq 1024' 4, 'auto, seq 1024' 5) rotate by 35 right
set lmargin 12
set xrange [-0.7:5.7]
$stack << EOD
0.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
1.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
2.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
3.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
4.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
5.0 1.710777997970581 2.5661669969558716 4.263593554496765 7.685149550437927
EOD
plot $stack using 1:5:(0.85) with boxes lc rgb '#e6b800' title 'optimizer', \
  $stack using 1:4:(0.85) with boxes lc rgb '#d55e00' title 'gradients', \
  $stack using 1:3:(0.85) with boxes lc rgb '#7cc0f0' title 'gathered_parameters', \
  $stack using 1:2:(0.85) with boxes lc rgb '#1f77c9' title 'parameters'
