package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// counts counts the results of one operation.
type counts struct{ done, refused, excused, failed int }

// tally counts the results of all operations.
type tally struct {
	mu     sync.Mutex // guards the following fields
	counts map[string]*counts
	wrong  []error // the first few failures
}

func newTally() *tally { return &tally{counts: map[string]*counts{}} }

// maxWrong is the maximum number of failures to report.
const maxWrong = 10

// add counts an operation that ended with err, which is excused or a failure. 429 is neither: it
// means that the server is fully loaded.
func (t *tally) add(name string, err error, excused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts[name]
	if c == nil {
		c = &counts{}
		t.counts[name] = c
	}
	status, ok := err.(apierrors.APIStatus)
	switch {
	case err == nil:
		c.done++
	case ok && status.Status().Code == http.StatusTooManyRequests:
		c.refused++
	case excused:
		c.excused++
	default:
		c.failed++
		if len(t.wrong) < maxWrong {
			t.wrong = append(t.wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// sum returns the sum over all operations.
func (t *tally) sum() (sum counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.counts {
		sum.done += c.done
		sum.refused += c.refused
		sum.excused += c.excused
		sum.failed += c.failed
	}
	return sum
}

func (t *tally) String() string {
	c := t.sum()
	return fmt.Sprintf("%d operations done, %d refused, %d while the cluster or the namespace was going, %d failed", c.done, c.refused, c.excused, c.failed)
}

// report prints the counts of each operation and returns the failures.
func (t *tally) report(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintln(out, "\n| operation | done | refused | excused | failed |\n|---|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		c := t.counts[name]
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d |\n", name, c.done, c.refused, c.excused, c.failed)
	}
	return errors.Join(t.wrong...)
}
