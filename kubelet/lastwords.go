package kubelet

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds on a termination message: of the file, and of the log's end.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
const (
	maxMessage      = 4096
	maxLogMessage   = 2048
	maxLogLines     = 80
	maxLogLineBytes = 1024 // of CRI framing and text, read for one line
)

// lastWords is the termination message of an exited container: what it left in
// its message file, or if that is empty and its policy is to, the end of its log.
func lastWords(s *runtimeapi.ContainerStatus) string {
	path := s.GetAnnotations()[annotationMessagePath]
	for _, m := range s.GetMounts() {
		if path == "" || m.GetContainerPath() != path {
			continue
		}
		if text := tail(m.GetHostPath(), maxMessage); len(text) > 0 {
			return string(text)
		}
	}
	policy := corev1.TerminationMessagePolicy(s.GetAnnotations()[annotationMessageFrom])
	if policy == corev1.TerminationMessageFallbackToLogsOnError && s.GetExitCode() != 0 {
		return logEnd(tail(s.GetLogPath(), maxLogLines*maxLogLineBytes))
	}
	return ""
}

// tail returns the last n bytes of a regular file; nothing if there is none. A
// container owns the file, so a link in its place is not followed.
func tail(path string, n int64) []byte {
	// Not to wait for the other end of a pipe that was put there.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if info.Size() > n {
		if _, err := file.Seek(-n, io.SeekEnd); err != nil {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, n))
	if err != nil {
		return nil
	}
	return text
}

// logEnd strips log lines "time stream tag text" down to their text and keeps
// what of the last ones fits.
func logEnd(log []byte) string {
	lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	lines = lines[max(0, len(lines)-maxLogLines):]
	var out strings.Builder
	for _, line := range lines {
		fields := bytes.SplitN(line, []byte(" "), 4)
		if len(fields) < 4 {
			continue
		}
		out.Write(fields[3])
		if string(fields[2]) != "P" {
			out.WriteByte('\n')
		}
	}
	text := out.String()
	return text[max(0, len(text)-maxLogMessage):]
}
