package embedded

import (
	"errors"
	"reflect"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Verbosities at which etcd's messages are passed on. Its warnings are mostly
// about time; what stops it comes out of Run as an error.
const (
	warnVerbosity  = 1
	infoVerbosity  = 4
	debugVerbosity = 6
)

// A logSink is where etcd logs to: a logr.Logger, and, for what etcd
// considers the end of the process, a channel.
type logSink struct {
	log logr.Logger
	// fatal takes the first of those, and is read by whoever waits for etcd.
	fatal chan error
}

func newLogSink(log logr.Logger) *logSink {
	return &logSink{log: log, fatal: make(chan error, 1)}
}

// zap returns a logger for etcd. Its Fatal and Panic end the calling goroutine
// instead of the process.
func (s *logSink) zap() *zap.Logger {
	return zap.New(&logCore{log: s.log}, zap.WithFatalHook(s), zap.WithPanicHook(s))
}

// OnWrite implements [zapcore.CheckWriteHook] for messages that end the process.
func (s *logSink) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = &fatalError{message: entry.Message, cause: cause}
		}
	}
	if entry.Message == snapshotUnsaved && errors.Is(err, syscall.ENOSPC) {
		// The log still has all that the snapshot would have, and etcd makes another one
		// when it has grown.
		s.log.Error(err, "the disk is full: etcd goes on without this snapshot of its log")
		return
	}
	select {
	case s.fatal <- err:
	default:
	}
	runtime.Goexit()
}

// snapshotUnsaved is what etcd would end the process with where a small file that
// spares it the reading of old log entries cannot be written.
const snapshotUnsaved = "failed to save snapshot"

// fatalError is what etcd said last, with the error it gave.
type fatalError struct {
	message string
	cause   error
}

func (e *fatalError) Error() string { return e.message + ": " + e.cause.Error() }
func (e *fatalError) Unwrap() error { return e.cause }

// logCore passes zap's entries on to logr.
type logCore struct {
	log logr.Logger
}

func verbosity(level zapcore.Level) int {
	switch {
	case level >= zapcore.ErrorLevel:
		return 0
	case level == zapcore.WarnLevel:
		return warnVerbosity
	case level == zapcore.InfoLevel:
		return infoVerbosity
	}
	return debugVerbosity
}

func (c *logCore) Enabled(level zapcore.Level) bool {
	return c.log.V(verbosity(level)).Enabled()
}

func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	values, _ := split(fields)
	return &logCore{log: c.log.WithValues(values...)}
}

func (c *logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values, cause := split(fields)
	if e.Message == firstStart {
		e.Level = zapcore.InfoLevel
	}
	if e.Level >= zapcore.ErrorLevel {
		c.log.Error(cause, "etcd: "+e.Message, values...)
		return nil
	}
	if cause != nil {
		values = append(values, "err", cause.Error())
	}
	c.log.V(verbosity(e.Level)).Info("etcd: "+e.Message, values...)
	return nil
}

// firstStart is an error to etcd and to nobody else: it looks at the version of
// a database before it has written the first entry into it, and looks again
// later.
const firstStart = "failed to update storage version"

func (c *logCore) Sync() error { return nil }

// split turns fields into logr's keys and values, and the error among them.
func split(fields []zapcore.Field) (values []any, cause error) {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			cause = err
			continue
		}
		before := len(encoder.Fields)
		if telling(f) {
			encoder.AddString(f.Key, "not shown")
		} else {
			f.AddTo(encoder)
		}
		if len(encoder.Fields) > before {
			values = append(values, f.Key, encoder.Fields[f.Key])
		}
	}
	return values, cause
}

// telling reports whether a field may hold what is stored: etcd's debug messages have
// whole requests. Numbers, times and texts that etcd has put together itself do not.
func telling(f zapcore.Field) bool {
	switch f.Type {
	case zapcore.StringType:
		return f.Key == "request content"
	case zapcore.StringerType:
		return !reflect.ValueOf(f.Interface).CanInt() && !reflect.ValueOf(f.Interface).CanUint()
	case zapcore.ReflectType, zapcore.BinaryType, zapcore.ByteStringType,
		zapcore.ObjectMarshalerType, zapcore.InlineMarshalerType, zapcore.ArrayMarshalerType:
		return true
	}
	return false
}
