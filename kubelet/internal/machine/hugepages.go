package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// HugePages are the reserved huge pages of one size in bytes.
type HugePages struct{ Size, Count int64 }

// ReadHugePages returns the sizes of huge pages that the machine has, from the directory sys of
// sysfs(5). Without huge pages there is none.
func ReadHugePages(sys string) []HugePages {
	directory := filepath.Join(sys, "kernel/mm/hugepages")
	// A machine without the directory has no sizes.
	sizes, _ := os.ReadDir(directory)
	var list []HugePages
	for _, size := range sizes {
		text, ok := strings.CutPrefix(size.Name(), "hugepages-")
		kib, err := strconv.ParseInt(strings.TrimSuffix(text, "kB"), 10, 64)
		if !ok || err != nil || kib <= 0 || kib > 1<<40 {
			continue
		}
		count, err := os.ReadFile(filepath.Join(directory, size.Name(), "nr_hugepages"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(count)), 10, 64); err == nil {
			list = append(list, HugePages{Size: kib * 1024, Count: n})
		}
	}
	return list
}

// Name returns the size as the control groups of the kernel and CRI name it: 2MB, 1GB.
func (h HugePages) Name() string {
	units := []string{"B", "KB", "MB", "GB"}
	n := h.Size
	for len(units) > 1 && n%1024 == 0 && n > 0 {
		n, units = n/1024, units[1:]
	}
	return strconv.FormatInt(n, 10) + units[0]
}
