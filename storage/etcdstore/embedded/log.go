package embedded

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Verbosities at which etcd's messages are logged. Most of its warnings are about slow operations;
// Run returns fatal errors.
const (
	warnVerbosity  = 1
	infoVerbosity  = 4
	debugVerbosity = 6
)

// A logSink receives etcd's log. It writes to a logr.Logger and sends what etcd considers fatal to
// a channel.
type logSink struct {
	log logr.Logger
	// fatal receives the first fatal error. The goroutine that waits for etcd reads it.
	fatal chan error
}

func newLogSink(log logr.Logger) *logSink {
	return &logSink{log: log, fatal: make(chan error, 1)}
}

// zap returns a logger for etcd. Its Fatal and Panic end the calling goroutine, not the process.
func (s *logSink) zap() *zap.Logger {
	return zap.New(&logCore{log: s.log}, zap.WithFatalHook(s), zap.WithPanicHook(s))
}

// OnWrite implements [zapcore.CheckWriteHook] for fatal messages.
func (s *logSink) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = &fatalError{message: entry.Message, cause: cause}
		}
	}
	if entry.Message == snapshotUnsaved && errors.Is(err, syscall.ENOSPC) {
		// The log still contains everything that the snapshot would. etcd makes another one when
		// the log has grown.
		s.log.Error(err, "the disk is full: etcd goes on without this snapshot of its log")
		return
	}
	if strings.HasPrefix(entry.Message, scanFailed) && strings.HasSuffix(entry.Message, raft.ErrCompacted.Error()) {
		return
	}
	select {
	case s.fatal <- err:
	default:
	}
	runtime.Goexit()
}

// snapshotUnsaved is the message with which etcd ends the process if it cannot write a small file
// that would save it from reading old log entries.
const snapshotUnsaved = "failed to save snapshot"

// scanFailed begins the message of a panic at a start. etcd compacts entries that it has replayed before raft counts them as applied.
// A campaign in between scans them for changes of the membership and fails. The scan is not needed: a sole member campaigns only
// after its own change is applied, and there is no other.
const scanFailed = "error scanning unapplied entries "

// fatalError is etcd's last message with its error.
type fatalError struct {
	message string
	cause   error
}

func (e *fatalError) Error() string { return e.message + ": " + e.cause.Error() }
func (e *fatalError) Unwrap() error { return e.cause }

// logCore forwards zap's entries to logr.
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
	if e.Message == firstStart || strings.HasPrefix(e.Message, scanFailed) {
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

// firstStart is logged by etcd as an error on a first start, but is harmless: etcd reads the
// version of a database before it has written the first entry, and tries again later.
const firstStart = "failed to update storage version"

func (c *logCore) Sync() error { return nil }

// split converts fields to logr's keys and values, and returns the error among them.
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

// telling reports whether a field may contain stored data: etcd's debug messages contain whole
// requests. Numbers, times and etcd's own texts do not.
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
