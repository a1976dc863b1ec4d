package memruntime

import (
	"context"
	"io"
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

// log creates the log file and appends one line "time stream tag text" for each line of the
// container's output.
func (c *container) log(output string) error {
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
	for line := range strings.Lines(output) {
		if err := writeLine(file, strings.TrimSuffix(line, "\n")); err != nil {
			file.Close()
			return err
		}
	}
	return file.Close()
}

// maxLine is the size of the text of a line of a log, containerd's default. A longer line of output
// is split.
const maxLine = 16 << 10

// writeLine writes one line of output.
func writeLine(out io.StringWriter, line string) error {
	for tag := "P"; tag == "P"; line = line[min(len(line), maxLine):] {
		if len(line) <= maxLine {
			tag = "F"
		}
		stamp := time.Now().Format(time.RFC3339Nano)
		if _, err := out.WriteString(stamp + " stdout " + tag + " " + line[:min(len(line), maxLine)] + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// ReopenContainerLog creates the log file of a running container again.
func (r *Runtime) ReopenContainerLog(_ context.Context, in *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	r.mu.Lock()
	c, err := r.running(in.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.log(""); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
