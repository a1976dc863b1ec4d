package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestHugeTerminationMessage: of a message file, or a log in one line, of 10 GiB, only the end is read, and
// what is reported is text.
func TestHugeTerminationMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(10 << 30); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(-100, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(strings.Repeat("\xff", 60) + strings.Repeat("end ", 10)); err != nil {
		t.Fatal(err)
	}
	s := &runtimeapi.ContainerStatus{
		ExitCode: 1, LogPath: path, Mounts: []*runtimeapi.Mount{{ContainerPath: "/message", HostPath: path}},
		Annotations: map[string]string{podconfig.AnnotationMessagePath: "/message"},
	}
	said := terminationMessage(s)
	if len(said) > maxMessage || !strings.HasSuffix(said, "\uFFFDend end end end end end end end end end ") || !utf8.ValidString(said) {
		t.Errorf("the message has %d bytes and ends with %q", len(said), said[max(0, len(said)-100):])
	}
	binary := path + "-binary"
	if err := os.WriteFile(binary, []byte(strings.Repeat("x\xff", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Mounts[0].HostPath = binary
	if said := terminationMessage(s); len(said) > maxMessage || !utf8.ValidString(said) || !strings.HasSuffix(said, "x\uFFFDx\uFFFD") {
		t.Errorf("the message of a binary file has %d bytes", len(said))
	}
	s.Mounts = nil
	s.Annotations[podconfig.AnnotationMessageFrom] = string(corev1.TerminationMessageFallbackToLogsOnError)
	if said := terminationMessage(s); len(said) > maxLogMessage || !utf8.ValidString(said) {
		t.Errorf("the end of the log has %d bytes", len(said))
	}
}
