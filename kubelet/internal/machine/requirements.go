package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Swaps reports whether the machine has swap, from the directory proc of proc(5).
func Swaps(proc string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(proc, "swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a kernel without swap
	}
	// The first line is a heading.
	return strings.Contains(strings.TrimSpace(string(text)), "\n"), err
}

// kernelDefaults are the values of sysctls that Kubernetes expects.
var kernelDefaults = []struct {
	name  string
	value int
}{
	{"vm/overcommit_memory", 1}, {"vm/panic_on_oom", 0}, {"kernel/panic", 10}, {"kernel/panic_on_oops", 1},
	{"kernel/keys/root_maxkeys", 1000000}, {"kernel/keys/root_maxbytes", 25000000},
}

// CheckKernelDefaults returns an error that names each sysctl with another value than Kubernetes
// expects, from the directory proc of proc(5).
func CheckKernelDefaults(proc string) error {
	var errs []error
	for _, d := range kernelDefaults {
		text, err := os.ReadFile(filepath.Join(proc, "sys", d.name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		value, err := strconv.Atoi(strings.TrimSpace(string(text)))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		case value != d.value:
			errs = append(errs, fmt.Errorf("invalid kernel flag: %v, expected value: %v, actual value: %v", d.name, d.value, value))
		}
	}
	return errors.Join(errs...)
}
