package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/volumes"
)

// greeter is a type of volume of one's own: a file with the options of a flexVolume. It keeps a
// list of its volumes outside the kubelet's directories, as a storage system would.
type greeter struct {
	mu   sync.Mutex
	list map[string]bool // guarded by mu
}

func (*greeter) Name() string { return "example.com/greeter" }

func (*greeter) Supports(v *corev1.Volume) bool {
	return v.FlexVolume != nil && v.FlexVolume.Driver == "example.com/greeter"
}

func (g *greeter) SetUp(_ context.Context, v *volumes.Volume) (string, error) {
	g.set(v.Directory, true)
	text := v.Spec.FlexVolume.Options["greeting"] + " " + v.Pod.Name
	return v.Directory, os.WriteFile(filepath.Join(v.Directory, "greeting"), []byte(text), 0o644)
}

func (g *greeter) TearDown(_ context.Context, directory string) error {
	g.set(directory, false)
	return nil
}

func (g *greeter) set(directory string, is bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list[directory] = is
	if !is {
		delete(g.list, directory)
	}
}

func (g *greeter) directories() (list []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for directory := range g.list {
		list = append(list, directory)
	}
	return list
}

// TestCustomVolume: a kubelet mounts a type of volume of one's own. After a restart, during which
// the pod was deleted from the API, the volume is torn down like that of a pod deleted in order.
func TestCustomVolume(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) { testCustomVolume(t, restart) })
	}
}

func testCustomVolume(t *testing.T, restart bool) {
	r := newRig(t, memruntime.Config{})
	g := &greeter{list: map[string]bool{}}
	r.config.Volumes = []volumes.Plugin{g}
	r.start()
	pod := webPod("web")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{
		Driver: "example.com/greeter", Options: map[string]string{"greeting": "hello"},
	}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	r.api.create(pod)
	r.api.await(t, "web", "running", running)
	directories := g.directories()
	if len(directories) != 1 || !strings.HasSuffix(directories[0], "/volumes/example.com~greeter/v") {
		t.Fatalf("set up: %v", directories)
	}
	if text, err := os.ReadFile(filepath.Join(directories[0], "greeting")); err != nil || string(text) != "hello web" {
		t.Errorf("greeting %q: %v", text, err)
	}
	if restart {
		r.stop()
		r.api.lose("web")
		r.start()
	} else {
		r.api.delete("web", 0)
	}
	r.api.await(t, "web", "gone", gone)
	for deadline := time.Now().Add(patience); len(g.directories()) > 0 || exists(directories[0]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v, and the directory: %t", g.directories(), exists(directories[0]))
		}
	}
	r.stop()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
