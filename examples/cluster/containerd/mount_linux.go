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

// unmountUnder unmounts everything at and below dir, the innermost first.
func unmountUnder(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
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
	var failed error
	for _, point := range points {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return failed
}
