package scavenge

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram takes the pages of the program's file out of the process, except those that may have been written: they are
// not in the file.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	var clean []mapping
	lines := bufio.NewScanner(file)
	for at := (mapping{}); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			if at, err = parseMapping(fields[0]); err != nil {
				return err
			}
			if strings.Contains(fields[1], "w") || fields[len(fields)-1] != program {
				at = mapping{}
			}
		case at.length > 0 && strings.Join(fields, " ") == "Anonymous: 0 kB":
			clean = append(clean, at)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("/proc/self/smaps: %w", err)
	}
	for _, m := range clean {
		if _, _, failed := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.length, syscall.MADV_DONTNEED); failed != 0 {
			return fmt.Errorf("madvise: %w", failed)
		}
	}
	return nil
}

// A mapping is a range of addresses.
type mapping struct{ start, length uintptr }

func parseMapping(text string) (mapping, error) {
	from, to, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return mapping{}, fmt.Errorf("/proc/self/smaps: %w", err)
	}
	end, err := strconv.ParseUint(to, 16, 64)
	if err != nil {
		return mapping{}, fmt.Errorf("/proc/self/smaps: %w", err)
	}
	return mapping{uintptr(start), uintptr(end - start)}, nil
}
