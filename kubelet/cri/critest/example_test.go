package critest_test

import (
	"os"
	"testing"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/critest"
)

func Example() {
	_ = func(t *testing.T) {
		client, err := cri.Dial(t.Context(), "/run/containerd/containerd.sock", cri.Options{})
		if err != nil {
			t.Skip(err)
		}
		defer client.Close()
		logs, err := os.MkdirTemp("", "logs")
		if err != nil {
			t.Fatal(err)
		}
		critest.Run(t, critest.Config{
			Runtime: client, Image: "registry.test/program:1", Command: []string{"/program"}, LogRoot: logs,
			Lacks: []critest.Feature{critest.Pulls, critest.Events},
		})
	}
}
