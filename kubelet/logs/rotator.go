// Package logs keeps the logs of containers small. A runtime writes a log to one file; when it has
// become too large, a [Rotator] renames it and makes the runtime begin a new one. Of a container it
// keeps a number of files: N.log, which is being written, N.log.TIME, and compressed ones,
// N.log.TIME.gz.
//
//	rotator, err := logs.New(logs.Config{Runtime: runtime, Root: "/var/log/pods"})
//	rotator.Run(ctx)
//
// A rotation can be interrupted at any step, by a crash or a full disk, without losing a line: the
// next one finishes it. Nothing is kept in memory. Of a container that writes hundreds of megabytes between
// two looks, the older lines are lost.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The defaults, which are those of Kubernetes' kubelet.
const (
	DefaultMaxSize  = 10 << 20
	DefaultMaxFiles = 5
	DefaultInterval = 10 * time.Second
)

// maxExcess bounds the older files of a log: they are removed where they take more than this many times
// MaxFiles times MaxSize. A container that writes faster than a file can be compressed would otherwise keep
// its worker longer at each look, and write more in that time than before.
const maxExcess = 10

// Runtime is the part of CRI that a Rotator uses. Its methods must be safe for concurrent use.
type Runtime interface {
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error)
}

// Config describes a Rotator. Runtime and Root must be set.
type Config struct {
	Runtime Runtime
	// Root is the directory of all logs. Logs elsewhere are left alone.
	Root string
	// Labels selects the containers; nil means all.
	Labels map[string]string
	// MaxSize is the size in bytes from which a log is rotated; zero means DefaultMaxSize.
	MaxSize int64
	// MaxFiles is the number of files of a container, at least 2; zero means DefaultMaxFiles.
	MaxFiles int
	// Interval is the time between two looks; zero means DefaultInterval.
	Interval time.Duration
	// Workers is the number of logs that are rotated at once; zero means 1.
	Workers int
	Log     logr.Logger
}

// Rotator rotates the logs of the containers of a node.
type Rotator struct {
	config Config
	// before, if not nil, is called before each change on the disk.
	before func(change string)
}

// New returns a Rotator. It starts nothing.
func New(c Config) (*Rotator, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("logs: no Runtime")
	case !filepath.IsAbs(c.Root):
		return nil, fmt.Errorf("logs: Root %q is not an absolute path", c.Root)
	case c.MaxSize < 0:
		return nil, fmt.Errorf("logs: MaxSize %d is negative", c.MaxSize)
	case c.MaxFiles < 0 || c.MaxFiles == 1:
		return nil, fmt.Errorf("logs: MaxFiles %d is less than 2", c.MaxFiles)
	case c.Interval < 0:
		return nil, fmt.Errorf("logs: Interval %v is negative", c.Interval)
	case c.Workers < 0:
		return nil, fmt.Errorf("logs: Workers %d is negative", c.Workers)
	}
	if c.MaxSize == 0 {
		c.MaxSize = DefaultMaxSize
	}
	if c.MaxFiles == 0 {
		c.MaxFiles = DefaultMaxFiles
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Workers == 0 {
		c.Workers = 1
	}
	return &Rotator{config: c}, nil
}

// Run looks after the logs until ctx is done. Errors are logged, and what failed is tried again.
func (r *Rotator) Run(ctx context.Context) {
	tick := time.NewTicker(r.config.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.config.Log.Error(err, "rotate logs")
		}
	}
}

// Look rotates the logs that are too large now.
func (r *Rotator) Look(ctx context.Context) error {
	list, err := r.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: r.config.Labels,
	}})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var group sync.WaitGroup
	ids := make(chan string)
	errs := make([]error, r.config.Workers)
	for i := range r.config.Workers {
		group.Go(func() {
			for id := range ids {
				if err := r.container(ctx, id); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("container %s: %w", id, err))
				}
			}
		})
	}
	for _, c := range list.GetContainers() {
		ids <- c.GetId()
	}
	close(ids)
	group.Wait()
	return errors.Join(errs...)
}

// container rotates the log of one container if it is too large.
func (r *Rotator) container(ctx context.Context, id string) error {
	if ctx.Err() != nil {
		return nil
	}
	out, err := r.config.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if status.Code(err) == codes.NotFound {
		return nil // it was removed in the meantime
	}
	if err != nil {
		return err
	}
	path := out.GetStatus().GetLogPath()
	inside, err := filepath.Rel(r.config.Root, path)
	if path == "" || err != nil || !filepath.IsLocal(inside) {
		return nil // it has no log, or it is not ours
	}
	reopen := func(ctx context.Context) error {
		_, err := r.config.Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A rotation was interrupted after the log was renamed: the runtime still writes to that file.
		return reopen(ctx)
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() < r.config.MaxSize {
		return err
	}
	// Not interrupted by the end of ctx between its steps: the runtime would write to a file without
	// the log's name until the next look.
	rotation := rotation{path: path, files: r.config.MaxFiles, most: maxExcess * int64(r.config.MaxFiles) * r.config.MaxSize, reopen: func(ctx context.Context) error {
		return reopen(context.WithoutCancel(ctx))
	}, now: time.Now(), before: r.before}
	return rotation.rotate(ctx)
}
