package memruntime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logPath returns the path of the container's log; empty if there is none.
func (c *container) logPath() string {
	directory, path := c.sandbox.config.GetLogDirectory(), c.config.GetLogPath()
	if directory == "" || path == "" {
		return ""
	}
	return filepath.Join(directory, path)
}

// appendLog creates the container's log unless it exists, and appends text.
func (c *container) appendLog(text []byte) error {
	path := c.logPath()
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// maxLine is the size of the text of a line of a log, containerd's default. A longer line of output
// is split.
const maxLine = 16 << 10

// appendLines appends the lines of standard output to text.
func appendLines(text []byte, output string) []byte {
	for line := range strings.Lines(output) {
		text = appendLine(text, "stdout", []byte(strings.TrimSuffix(line, "\n")))
	}
	return text
}

// appendLine appends one line of output.
func appendLine(text []byte, stream string, line []byte) []byte {
	for len(line) > maxLine {
		text = appendEntry(text, stream, "P", line[:maxLine])
		line = line[maxLine:]
	}
	return appendEntry(text, stream, "F", line)
}

// appendEntry appends one line "time stream tag output" of a log.
func appendEntry(text []byte, stream, tag string, output []byte) []byte {
	text = time.Now().AppendFormat(text, time.RFC3339Nano)
	text = append(text, " "+stream+" "+tag+" "...)
	return append(append(text, output...), '\n')
}

// ReopenContainerLog creates the log file of a running container again.
func (r *Runtime) ReopenContainerLog(_ context.Context, in *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	r.mu.Lock()
	c, err := r.running(in.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.appendLog(nil); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
