package staticpods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// files is the origin of a directory of manifests, or of one manifest.
type files struct {
	path     string
	builder  builder
	problems problems
}

func (f *files) pods(ctx context.Context) ([]*corev1.Pod, bool) {
	f.problems.begin()
	defer f.problems.end()
	pods, err := f.read(ctx)
	if err != nil {
		f.problems.add(f.path, err)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, false
		}
	}
	return append([]*corev1.Pod{}, pods...), true
}

// read returns an error only if nothing could be read. Errors of single files are recorded.
func (f *files) read(ctx context.Context) ([]*corev1.Pod, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		pod, err := f.manifest(ctx, f.path)
		if err != nil {
			return nil, err
		}
		return []*corev1.Pod{pod}, nil
	}
	entries, err := os.ReadDir(f.path) // sorted
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(f.path, entry.Name())
		pod, err := f.manifest(ctx, path)
		switch {
		case err == nil:
			pods = append(pods, pod)
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			f.problems.add(path, err)
		}
	}
	return pods, nil
}

// manifest returns the pod of a file. Its errors name the file.
func (f *files) manifest(ctx context.Context, path string) (*corev1.Pod, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	pod, err := f.builder.decodePod(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("%s: couldn't parse as pod(%w), please check config file", path, err)
	}
	if err := f.builder.prepare(pod, path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pod, nil
}

// readFile reads a regular file of bounded size. It does not open anything else, because opening a
// pipe waits and opening a device may have effects.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	// The file may be another one by now: a pipe does not make a non-blocking open wait.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	data, err := readAtMost(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s: a directory is not read as a manifest", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a directory or file", path)
	case info.Size() > maxManifest:
		return fmt.Errorf("%s: %w", path, errTooLarge)
	}
	return nil
}

// readAtMost reads r to its end, which must come within maxManifest bytes.
func readAtMost(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = errTooLarge
	}
	return data, err
}
