package containerd

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// unmountUnder unmounts everything at and below dir.
func unmountUnder(dir string) error {
	points, err := mountsUnder(dir)
	return errors.Join(err, unmount(points))
}

// mountsUnder returns the mount points at and below dir, the innermost first. A
// point that has several mounts on top of each other is there as often.
func mountsUnder(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// Spaces and the like in the path are octal escapes (proc(5)).
		point, err := strconv.Unquote(`"` + strings.ReplaceAll(fields[4], `"`, `\"`) + `"`)
		if err == nil && (point == dir || strings.HasPrefix(point, dir+"/")) {
			points = append(points, point)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	return points, nil
}

// unmount unmounts each of points, in this order. It succeeds on what is gone.
func unmount(points []string) error {
	var failed error
	for _, point := range points {
		err := syscall.Unmount(point, syscall.MNT_DETACH)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return failed
}
