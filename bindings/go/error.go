package hypostyle

/*
#include <hypostyle.h>
*/
import "C"

import (
	"context"
	"fmt"
)

// Status says what a caller can do about an [Error].
type Status int32

// The statuses of errors.
const (
	StatusSyntax           Status = C.HYPOSTYLE_SYNTAX
	StatusUnknownName      Status = C.HYPOSTYLE_UNKNOWN_NAME
	StatusInvalidInput     Status = C.HYPOSTYLE_INVALID_INPUT
	StatusConstraint       Status = C.HYPOSTYLE_CONSTRAINT
	StatusAlreadyExists    Status = C.HYPOSTYLE_ALREADY_EXISTS
	StatusNotFound         Status = C.HYPOSTYLE_NOT_FOUND
	StatusIO               Status = C.HYPOSTYLE_IO
	StatusDiskFull         Status = C.HYPOSTYLE_DISK_FULL
	StatusCorrupt          Status = C.HYPOSTYLE_CORRUPT
	StatusVersion          Status = C.HYPOSTYLE_VERSION
	StatusBusy             Status = C.HYPOSTYLE_BUSY
	StatusReadOnly         Status = C.HYPOSTYLE_READ_ONLY
	StatusConflict         Status = C.HYPOSTYLE_CONFLICT
	StatusInterrupted      Status = C.HYPOSTYLE_INTERRUPTED
	StatusOutOfMemory      Status = C.HYPOSTYLE_OUT_OF_MEMORY
	StatusUnsupported      Status = C.HYPOSTYLE_UNSUPPORTED
	StatusClosed           Status = C.HYPOSTYLE_CLOSED
	StatusInternal         Status = C.HYPOSTYLE_INTERNAL
	StatusDenied           Status = C.HYPOSTYLE_DENIED
	StatusConnection       Status = C.HYPOSTYLE_CONNECTION
	StatusTransactionState Status = C.HYPOSTYLE_TRANSACTION_STATE
)

// Error is what the database says of a failure; [errors.As] finds it. If the context ended the
// statement, [errors.Is] finds the context's error, too.
type Error struct {
	Status   Status
	Code     string // the five characters of the SQLSTATE
	Message  string
	Detail   string
	Position int // in the statement's text, in characters from 1 on; 0 if there is none
	cause    error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("hypostyle: %s (SQLSTATE %s)", e.Message, e.Code)
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// SQLState returns the code, under the name that other drivers have for it.
func (e *Error) SQLState() string { return e.Code }

// Unwrap returns the error of the context that ended the statement, or nil.
func (e *Error) Unwrap() error { return e.cause }

// failed makes an error of the library's, which it frees, if a call has failed. ctx may be nil.
func failed(ctx context.Context, status C.hypostyle_status, from **C.hypostyle_error) error {
	if status == C.HYPOSTYLE_OK {
		return nil
	}
	told := &Error{
		Status:   Status(status),
		Code:     C.GoString(C.hypostyle_error_sqlstate(*from)),
		Message:  C.GoString(C.hypostyle_error_message(*from)),
		Position: int(C.hypostyle_error_position(*from)),
	}
	if detail := C.hypostyle_error_detail(*from); detail != nil {
		told.Detail = C.GoString(detail)
	}
	C.hypostyle_error_free(from)
	if ctx != nil && told.Status == StatusInterrupted {
		told.cause = ctx.Err()
	}
	return told
}

// refused makes an error of this package's.
func refused(status Status, code, format string, values ...any) error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, values...)}
}

func isClosed(what string) error {
	return refused(StatusClosed, "08003", "the %s is closed", what)
}
