package observe

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of a termination message: of the file, and of the end of the log.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
const (
	maxMessage      = 4096
	maxLogMessage   = 2048
	maxLogLines     = 80
	maxLogLineBytes = 1024 // CRI framing and text of one line
)

// terminationMessage returns the termination message of an exited container: the contents of its message
// file, or, if that is empty and the policy allows it, the end of its log. It is valid UTF-8, because the
// API could not return anything else as it was written.
func terminationMessage(s *runtimeapi.ContainerStatus) string {
	text := strings.ToValidUTF8(lastWords(s), "\uFFFD")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[len(text)-maxMessage:], "")
	}
	return text
}

func lastWords(s *runtimeapi.ContainerStatus) string {
	path := s.GetAnnotations()[podconfig.AnnotationMessagePath]
	for _, m := range s.GetMounts() {
		if path == "" || m.GetContainerPath() != path {
			continue
		}
		if text := tail(m.GetHostPath(), maxMessage); len(text) > 0 {
			return string(text)
		}
	}
	policy := corev1.TerminationMessagePolicy(s.GetAnnotations()[podconfig.AnnotationMessageFrom])
	if policy == corev1.TerminationMessageFallbackToLogsOnError && s.GetExitCode() != 0 {
		return logEnd(tail(s.GetLogPath(), maxLogLines*maxLogLineBytes))
	}
	return ""
}

// tail returns the last n bytes of a regular file, or nothing. The container owns the file, so
// links are not followed.
func tail(path string, n int64) []byte {
	// Do not block on a pipe.
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

// logEnd returns the texts of the last log lines "time stream tag text" that fit.
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
