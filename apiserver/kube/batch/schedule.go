package batch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cronField describes a field of a schedule: its range, and the names that stand for numbers from
// min upwards.
type cronField struct {
	min, max int
	names    []string
}

var cronFields = []cronField{
	{0, 59, nil},
	{0, 23, nil},
	{1, 31, nil},
	{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// parseSchedule returns an error unless s is a schedule in the form of crontab(5), with an optional
// time zone in front and descriptors such as @daily.
func parseSchedule(s string) error {
	if strings.HasPrefix(s, "TZ=") || strings.HasPrefix(s, "CRON_TZ=") {
		zone, rest, ok := strings.Cut(s[strings.Index(s, "=")+1:], " ")
		if !ok {
			return errors.New("invalid schedule format: no schedule after the time zone")
		}
		if _, err := time.LoadLocation(zone); err != nil {
			return fmt.Errorf("provided bad location %s: %w", zone, err)
		}
		s = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(s, "@") {
		return parseDescriptor(s)
	}
	fields := strings.Fields(s)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(cronFields), len(fields), fields)
	}
	for i, f := range fields {
		for part := range strings.SplitSeq(f, ",") {
			if err := cronFields[i].check(part); err != nil && part != "" {
				return err
			}
		}
	}
	return nil
}

func parseDescriptor(s string) error {
	switch s {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	every, ok := strings.CutPrefix(s, "@every ")
	if !ok {
		return fmt.Errorf("unrecognized descriptor: %s", s)
	}
	if _, err := time.ParseDuration(every); err != nil {
		return fmt.Errorf("failed to parse duration %s: %w", s, err)
	}
	return nil
}

// check accepts a number, a range or all, each with or without a step: "*/5", "mon-fri".
func (f cronField) check(part string) error {
	span, step, stepped := strings.Cut(part, "/")
	low, high, ranged := strings.Cut(span, "-")
	from, to, by := f.min, f.max, 1
	var err error
	if low != "*" && low != "?" {
		if from, err = f.number(low); err != nil {
			return err
		}
		to = from
		if strings.Contains(high, "-") {
			return fmt.Errorf("too many hyphens: %s", part)
		}
		if ranged {
			if to, err = f.number(high); err != nil {
				return err
			}
		}
	}
	if stepped {
		if strings.Contains(step, "/") {
			return fmt.Errorf("too many slashes: %s", part)
		}
		if by, err = (cronField{}).number(step); err != nil {
			return err
		}
		if !ranged {
			to = f.max
		}
	}
	switch {
	case from < f.min:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", from, f.min, part)
	case to > f.max:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", to, f.max, part)
	case from > to:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", from, to, part)
	case by == 0:
		return fmt.Errorf("step of range should be a positive number: %s", part)
	}
	return nil
}

func (f cronField) number(s string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", s, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, s)
	}
	return n, nil
}
