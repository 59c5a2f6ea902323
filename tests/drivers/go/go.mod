module hypostyle.drivers

go 1.24
