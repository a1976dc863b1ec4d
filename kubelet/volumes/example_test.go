package volumes_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// motd is a type of volume with a file of today's message.
type motd struct{ message string }

func (motd) Name() string { return "example.com/motd" }

func (motd) Supports(v *corev1.Volume) bool {
	return v.CSI != nil && v.CSI.Driver == "example.com/motd"
}

func (m motd) SetUp(_ context.Context, v *volumes.Volume) (string, error) {
	if err := volumes.MakeDirectory(v.Directory, false, 0, 0o755); err != nil {
		return "", err
	}
	files := map[string]volumes.File{"motd": {Data: []byte(m.message), Mode: 0o644}}
	return v.Directory, volumes.WriteAtomically(v.Directory, files, v.FSGroup())
}

// A type of volume of one's own. In a kubelet: kubelet.Config{Volumes: []volumes.Plugin{motd{...}}}.
func Example() {
	set, err := volumes.NewSet(motd{"be kind"})
	if err != nil {
		log.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "pod")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	csi := &corev1.CSIVolumeSource{Driver: "example.com/motd"}
	paths, err := set.SetUp(context.Background(), volumePod(volume("today", corev1.VolumeSource{CSI: csi})), directory)
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(paths["today"], "motd"))
	fmt.Printf("%s %v\n", text, err)
	fmt.Println(set.TearDown(context.Background(), directory))
	// Output:
	// be kind <nil>
	// <nil>
}
