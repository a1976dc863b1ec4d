package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Period is the time in which a cgroup may use its Limits.Quota, in microseconds.
const Period = 100000

// CPU says how quotas of cpu time are enforced. The zero value enforces them in each [Period].
type CPU struct {
	// NoQuota means that cgroups have no quota, whatever their limits are.
	NoQuota bool
	// Period is the time in which the kernel measures cpu time, from 1000 to 1000000 microseconds. Zero
	// means the constant Period. Limits.Quota is for that constant in any case.
	Period int64
}

// minQuota is the smallest quota of the kernel, in microseconds.
const minQuota = 1000

// Quota converts thousandths of a cpu to the quota and the period of the kernel, in microseconds. Both
// are zero if there is no limit.
func (c CPU) Quota(milli int64) (quota, period int64) {
	if milli <= 0 || c.NoQuota {
		return 0, 0
	}
	period = cmp.Or(c.Period, Period)
	return max(min(milli, maxQuota)*period/1000, minQuota), period
}

// kernel converts a quota for the constant Period to what the kernel gets, which is not less than the
// kernel takes unless the quota was. A quota of zero means no limit.
func (c CPU) kernel(quota int64) (n, period int64) {
	period = cmp.Or(c.Period, Period)
	if quota <= 0 || c.NoQuota {
		return 0, period
	}
	return max(min(quota, maxQuota)*period/Period, min(quota, minQuota)), period
}

// measured converts the quota and the period of the kernel to a quota for the constant Period.
func measured(quota, period string) int64 {
	p := number(period)
	if p == 0 {
		return 0
	}
	return min(number(quota), maxQuota) * Period / p
}

// Limits holds the limits of a cgroup. Zero means no limit, except for Shares.
type Limits struct {
	// Shares is the weight of version 1, from 2 to 262144.
	Shares int64
	Quota  int64 // microseconds in Period
	Memory int64 // bytes
}

// Settings holds what Create sets. Zero leaves what the cgroup has: no limit, if it is new.
type Settings struct {
	Limits
	// Processes is the largest number of processes and threads.
	Processes int64
	// HugePages holds bytes of huge pages by their size, such as 2MB. Zero means that the cgroup gets
	// none of them. It is ignored where the kernel cannot limit huge pages, and where a cgroup above
	// withholds the controller, unless the cgroup gets some.
	HugePages map[string]int64
}

// Unlimited is the amount of huge pages that means no limit.
const Unlimited = int64(1) << 62

// Create creates a cgroup, if it does not exist, and sets its limits. The runtime creates it in the other
// hierarchies of version 1. A limit that cannot be set does not keep back the others.
func (g FS) Create(path string, s Settings) error {
	l := g.layout()
	controllers := []string{controllerCPU, controllerMemory}
	for _, optional := range []string{controllerProcesses, controllerHugePages} {
		if l.has(optional) || optional == controllerProcesses && s.Processes > 0 {
			controllers = append(controllers, optional)
		}
	}
	if err := l.create(path, controllers); err != nil {
		return err
	}
	var amounts []amount
	add := func(r resource, n int64) {
		if n > 0 {
			amounts = append(amounts, amount{resource: r, value: n})
		}
	}
	add(shares, s.Shares)
	add(quota, s.Quota)
	add(memory, s.Memory)
	add(processes, s.Processes)
	if slices.Contains(controllers, controllerHugePages) {
		for size, n := range s.HugePages {
			amounts = append(amounts, amount{resource: hugePages, size: size, value: n, optional: n == 0 || n >= Unlimited})
		}
	}
	var errs []error
	for _, a := range amounts {
		errs = append(errs, g.set(l, path, a))
	}
	return errors.Join(errs...)
}

// Unified reports whether version 2 is mounted.
func (g FS) Unified() bool {
	_, is := g.layout().(unified)
	return is
}

// Has reports whether the kernel has a controller, such as pids.
func (g FS) Has(controller string) bool { return g.layout().has(controller) }

// Exists reports whether a cgroup exists where pods are limited.
func (g FS) Exists(path string) bool {
	l := g.layout()
	for _, controller := range []string{controllerCPU, controllerMemory} {
		if _, err := g.disk().ReadDir(l.directory(controller, path)); err == nil {
			return true
		}
	}
	return false
}

// SetShares sets the weight of an existing cgroup.
func (g FS) SetShares(path string, n int64) error {
	return g.set(g.layout(), path, amount{resource: shares, value: n})
}

// SetQuota sets the cpu time of an existing cgroup in each Period, in microseconds; zero means no
// limit.
func (g FS) SetQuota(path string, n int64) error {
	return g.set(g.layout(), path, amount{resource: quota, value: n})
}

// SetMemory sets the memory limit of an existing cgroup in bytes; zero means no limit.
func (g FS) SetMemory(path string, bytes int64) error {
	return g.set(g.layout(), path, amount{resource: memory, value: bytes})
}

// Limits returns the limits of a cgroup. The kernel may have rounded them.
func (g FS) Limits(path string) (Limits, error) {
	var err error
	l := g.layout()
	limits := l.decode(func(controller, file string) (text string) {
		if err == nil {
			text, err = g.get(l, controller, path, file)
		}
		return text
	})
	return limits, err
}

// MemoryUsage returns the memory that a cgroup uses, in bytes.
func (g FS) MemoryUsage(path string) (int64, error) {
	l := g.layout()
	text, err := g.get(l, controllerMemory, path, l.usage())
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of cgroup %s: %w", l.usage(), path, err)
	}
	return n, nil
}

// WorkingSet returns the memory that a cgroup uses without the pages of files that were not used lately,
// in bytes.
func (g FS) WorkingSet(path string) (int64, error) {
	used, err := g.MemoryUsage(path)
	if err != nil {
		return 0, err
	}
	l := g.layout()
	text, err := g.get(l, controllerMemory, path, "memory.stat")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, l.inactive()+" "); ok {
			return max(used-number(rest), 0), nil
		}
	}
	return 0, cmp.Or(err, fmt.Errorf("memory.stat of cgroup %s has no %s", path, l.inactive()))
}

// number returns a limit that is at least one; zero for anything else, such as max.
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (g FS) get(l layout, controller, path, file string) (string, error) {
	text, err := g.disk().ReadFile(filepath.Join(l.directory(controller, path), file))
	return strings.TrimSpace(string(text)), err
}

func (g FS) set(l layout, path string, a amount) error {
	for _, s := range l.encode(a) {
		err := g.disk().WriteFile(filepath.Join(l.directory(s.controller, path), s.file), []byte(s.value))
		if err != nil && !((s.optional || a.optional) && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}
