package fulldisk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

func TestLeave(t *testing.T) {
	disk := fulldisk.New(t)
	for _, test := range []struct {
		resource bool
		data     []byte
	}{{fulldisk.Files, nil}, {fulldisk.Pages, []byte("x")}} {
		for n := range 4 {
			disk.Leave(test.resource, n)
			for i := range n + 1 {
				path := filepath.Join(disk.Path, fmt.Sprint(i))
				err := os.WriteFile(path, test.data, 0o600)
				if full := errors.Is(err, syscall.ENOSPC); full != (i == n) || !full && err != nil {
					t.Errorf("file %d with %d left: %v", i, n, err)
				}
			}
			for i := range n + 1 {
				os.Remove(filepath.Join(disk.Path, fmt.Sprint(i)))
			}
			disk.Free()
		}
	}
}
