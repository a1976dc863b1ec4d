package cni

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The error codes of the specification. Codes from 100 on are the plugins' own.
const (
	CodeIncompatibleVersion = 1
	CodeUnsupportedField    = 2
	CodeUnknownContainer    = 3
	CodeInvalidEnvironment  = 4
	CodeIO                  = 5
	CodeDecoding            = 6
	CodeInvalidConfig       = 7
	CodeTryAgain            = 11
	CodeNotAvailable        = 50 // STATUS: no ADD can succeed
	CodeLimitedConnectivity = 51 // STATUS: as 50, and existing containers suffer
	CodePlugin              = 100
)

// The errors of an [Invoker] in addition to those of plugins.
var (
	// ErrExists is the error of a second Add of a recorded attachment.
	ErrExists = errors.New("attachment exists")
	// ErrNoPlugin means that the executable of a plugin was not found.
	ErrNoPlugin = errors.New("plugin not found")
	// ErrNoResult means that Check found no recorded result.
	ErrNoResult = errors.New("no result on record")
)

// Error is an error reported by a plugin.
type Error struct {
	// Code is one of the constants, or the plugin's own.
	Code int `json:"code"`
	// Msg is a short description.
	Msg string `json:"msg"`
	// Details is a longer one; may be empty.
	Details string `json:"details,omitempty"`
}

func (e *Error) Error() string {
	if e.Details == "" {
		return fmt.Sprintf("%s (code %d)", e.Msg, e.Code)
	}
	return fmt.Sprintf("%s: %s (code %d)", e.Msg, e.Details, e.Code)
}

// Errorf returns an [Error] with a code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// CallError is a failed call of a plugin. It wraps an [*Error] if the plugin reported one; otherwise
// the plugin was not found, was killed, or broke the specification.
type CallError struct {
	// Plugin is the plugin's type.
	Plugin string
	// Command is the command of the call, such as CmdAdd.
	Command string
	// Stderr is the beginning of what the plugin wrote to its standard error, at most 4 KiB.
	Stderr string
	// Err is the cause.
	Err error
}

func (e *CallError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("plugin %s: %v", e.Plugin, e.Err)
	}
	return fmt.Sprintf("plugin %s: %v, stderr: %q", e.Plugin, e.Err, e.Stderr)
}

func (e *CallError) Unwrap() error { return e.Err }

// callError returns err as a CallError.
func callError(cmd, typ string, err error) error {
	if _, ok := errors.AsType[*CallError](err); ok || err == nil {
		return err
	}
	return &CallError{Plugin: typ, Command: cmd, Err: err}
}

// code returns the code of the plugin's error in err, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// parseError reads the standard output of a failed plugin; nil if it is not an error of the
// specification.
func parseError(stdout []byte) *Error {
	e := new(Error)
	if json.Unmarshal(stdout, e) != nil || e.Code == 0 && e.Msg == "" {
		return nil
	}
	return e
}
