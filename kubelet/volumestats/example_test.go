package volumestats_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/kubelet/volumestats"
)

func Example() {
	dir, err := os.MkdirTemp("", "volume")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("contents"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	meter := volumestats.New(time.Minute)
	for _, s := range meter.Of(context.Background(), "uid-1", []volumestats.Volume{{Name: "data", Path: dir, Walk: true}}) {
		fmt.Println(s.Name, "has", s.InodesUsed, "inodes; its file system is larger:", s.CapacityBytes > s.UsedBytes)
	}
	// Output:
	// data has 2 inodes; its file system is larger: true
}
