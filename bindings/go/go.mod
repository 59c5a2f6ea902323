module example.org/hypostyle

go 1.24
