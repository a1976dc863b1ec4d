package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SetShares sets the weight of an existing cgroup.
func (g FS) SetShares(path string, shares int64) error {
	if g.unified() {
		return g.set("", path, "cpu.weight", strconv.FormatInt(weight(shares), 10))
	}
	return g.set("cpu", path, "cpu.shares", strconv.FormatInt(shares, 10))
}

// SetQuota sets the cpu time of an existing cgroup in each Period, in microseconds; zero means no
// limit.
func (g FS) SetQuota(path string, quota int64) error {
	if g.unified() {
		value := "max"
		if quota > 0 {
			value = strconv.FormatInt(quota, 10)
		}
		return g.set("", path, "cpu.max", fmt.Sprintf("%s %d", value, Period))
	}
	if quota <= 0 {
		quota = -1
	}
	return g.set("cpu", path, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// SetMemory sets the memory limit of an existing cgroup in bytes; zero means no limit.
func (g FS) SetMemory(path string, bytes int64) error {
	if g.unified() {
		value := "max"
		if bytes > 0 {
			value = strconv.FormatInt(bytes, 10)
		}
		return g.set("", path, "memory.max", value)
	}
	if bytes <= 0 {
		bytes = -1
	}
	return g.set("memory", path, "memory.limit_in_bytes", strconv.FormatInt(bytes, 10))
}

// Limits returns the limits of a cgroup. The kernel may have rounded them.
func (g FS) Limits(path string) (Limits, error) {
	var l Limits
	var err error
	get := func(controller, name string) (value string) {
		if err == nil {
			value, err = g.get(controller, path, name)
		}
		return value
	}
	if g.unified() {
		if w := number(get("", "cpu.weight")); w > 0 {
			l.Shares = 2 + ((w-1)*262142+9998)/9999 // rounded up, so that it has this weight
		}
		quota, period, _ := strings.Cut(get("", "cpu.max"), " ")
		if p := number(period); p > 0 {
			l.Quota = number(quota) * Period / p
		}
		l.Memory = number(get("", "memory.max"))
		return l, err
	}
	l.Shares = number(get("cpu", "cpu.shares"))
	l.Quota = number(get("cpu", "cpu.cfs_quota_us"))
	l.Memory = number(get("memory", "memory.limit_in_bytes"))
	if l.Memory >= math.MaxInt64/4096*4096 { // how version 1 writes no limit
		l.Memory = 0
	}
	return l, err
}

// MemoryUsage returns the memory that a cgroup uses, in bytes.
func (g FS) MemoryUsage(path string) (int64, error) {
	controller, name := "memory", "memory.usage_in_bytes"
	if g.unified() {
		controller, name = "", "memory.current"
	}
	text, err := g.get(controller, path, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of cgroup %s: %w", name, path, err)
	}
	return n, nil
}

// weight converts the weight of version 1 to that of version 2.
func weight(shares int64) int64 { return 1 + (shares-2)*9999/262142 }

// number returns a limit that is at least one; zero for anything else, such as max.
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (g FS) get(controller, path, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(g.Mount, controller, path, name))
	return strings.TrimSpace(string(text)), err
}

func (g FS) set(controller, path, name, value string) error {
	f, err := os.OpenFile(filepath.Join(g.Mount, controller, path, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
