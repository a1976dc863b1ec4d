package logs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// strained is a writer that keeps its file if there is no room for a new one.
type strained struct{ *writer }

func (s strained) ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	s.file.Close()
	s.file = file
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

// TestRotateOnAFullDisk: wherever the disk gets full, no line is lost and nothing half-written stays, and
// the logs are rotated when there is space again.
func TestRotateOnAFullDisk(t *testing.T) {
	for _, resource := range []bool{fulldisk.Files, fulldisk.Pages} {
		disk := fulldisk.New(t)
		for left := range 3 {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(disk.Path, "ns_pod_uid", "web", "0.log")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(filepath.Join(disk.Path, "ns_pod_uid"))
				w := &writer{t: t, path: path}
				w.open()
				defer func() { w.file.Close() }()
				r := newRotator(t, w)
				r.config.Runtime, r.config.Log = strained{w}, logr.Discard()
				rotate := func() error {
					w.write(150)
					time.Sleep(DefaultInterval)
					err := r.Look(t.Context())
					w.check(w.lines)
					return err
				}
				if err := rotate(); err != nil {
					t.Fatal(err)
				}
				w.write(150) // so that no line needs a page
				disk.Leave(resource, left)
				time.Sleep(DefaultInterval)
				err := r.Look(t.Context())
				if full := errors.Is(err, syscall.ENOSPC); !full && (left == 0 || err != nil) {
					t.Errorf("%d left: %v", left, err)
				}
				w.check(w.lines)
				for _, name := range w.files() {
					if strings.HasSuffix(name, unfinished) {
						t.Errorf("%d left: %v", left, w.files())
					}
				}
				disk.Free()
				if err := rotate(); err != nil {
					t.Error(err)
				}
				if n := len(w.files()); n < 3 {
					t.Errorf("%d left before: %v", left, w.files())
				}
			})
		}
	}
}
