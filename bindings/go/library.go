package hypostyle

/*
#cgo LDFLAGS: -lhypostyle
#include <hypostyle.h>
*/
import "C"

import "unsafe"

// Version returns the version of the library, such as "0.1.0".
func Version() string {
	return C.GoString(C.hypostyle_version())
}

// aByte is what an empty text points to: NULL would be none.
var aByte byte

// textOf returns a text for C, which is valid while the Go text is reachable.
func textOf(text string) (*C.char, C.size_t) {
	if text == "" {
		return (*C.char)(unsafe.Pointer(&aByte)), 0
	}
	return (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text))
}
