package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// noIndex is the completion index of a pod that has none.
const noIndex = -1

// completionIndex returns the completion index of a pod of an Indexed Job.
func completionIndex(pod *corev1.Pod) int {
	i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 {
		return noIndex
	}
	return i
}

// indexes is a set of completion indexes: ranges in ascending order, with a gap between each and
// the next.
type indexes []indexRange

// indexRange is a range of indexes that includes first and last.
type indexRange struct{ first, last int }

// parseIndexes parses the form that String returns, which the status of Jobs and success policies
// use. It omits indexes from the limit on, and malformed ranges.
func parseIndexes(text string, limit int) indexes {
	var ranges indexes
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		last = min(last, limit-1)
		if err == nil && first >= 0 && first <= last {
			ranges = append(ranges, indexRange{first, last})
		}
	}
	return ranges.tidy()
}

// tidy sorts ranges and joins those that touch or overlap.
func (s indexes) tidy() indexes {
	slices.SortFunc(s, func(a, b indexRange) int { return cmp.Compare(a.first, b.first) })
	var tidy indexes
	for _, r := range s {
		if n := len(tidy); n > 0 && r.first <= tidy[n-1].last+1 {
			tidy[n-1].last = max(tidy[n-1].last, r.last)
		} else {
			tidy = append(tidy, r)
		}
	}
	return tidy
}

// union returns the indexes of both sets.
func (s indexes) union(other indexes) indexes { return slices.Concat(s, other).tidy() }

// with returns s with numbers added.
func (s indexes) with(numbers ...int) indexes {
	other := make(indexes, len(numbers))
	for i, n := range numbers {
		other[i] = indexRange{n, n}
	}
	return s.union(other)
}

func (s indexes) has(number int) bool {
	_, found := slices.BinarySearchFunc(s, number, func(r indexRange, n int) int {
		switch {
		case r.last < n:
			return -1
		case r.first > n:
			return 1
		}
		return 0
	})
	return found
}

func (s indexes) count() (n int) {
	for _, r := range s {
		n += r.last - r.first + 1
	}
	return n
}

// shared returns the number of indexes that both sets contain.
func (s indexes) shared(other indexes) (n int) {
	for len(s) > 0 && len(other) > 0 {
		n += max(0, min(s[0].last, other[0].last)-max(s[0].first, other[0].first)+1)
		if s[0].last < other[0].last {
			s = s[1:]
		} else {
			other = other[1:]
		}
	}
	return n
}

// missing returns the n lowest numbers below limit that are not in s, or fewer if there are fewer.
func (s indexes) missing(n, limit int) (numbers []int) {
	next := 0
	for _, r := range append(slices.Clone(s), indexRange{limit, limit}) {
		for ; next < min(r.first, limit) && len(numbers) < n; next++ {
			numbers = append(numbers, next)
		}
		next = r.last + 1
	}
	return numbers
}

// String returns the form of Kubernetes: "1,3-5,7". Two adjacent numbers are written as "3,4".
func (s indexes) String() string {
	var text strings.Builder
	for i, r := range s {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.Itoa(r.first))
		if r.last > r.first {
			separator := byte('-')
			if r.last == r.first+1 {
				separator = ','
			}
			text.WriteByte(separator)
			text.WriteString(strconv.Itoa(r.last))
		}
	}
	return text.String()
}
