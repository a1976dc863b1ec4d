package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestShort: the short form of the whole program, without the stock server,
// which takes minutes to build.
func TestShort(t *testing.T) {
	var out bytes.Buffer
	o := options{short: true, rounds: 1, only: regexp.MustCompile("size|start|requests")}
	if err := measure(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\| apiserver \| \d+\.\d \| \d+ \|`,
		`\| apiserver-noembed \| [12]\d\.\d \| \d+ \|`,
		`\| planekit, memory \| 0\.\d+ s \|`,
		`\| create pod \| 64 \| [1-9]\d*/s, [\d.]+ / [\d.]+ ms, [\d.]+ ms \|`,
		`\| list 1000 pods, Table \| 1 \| [1-9]`,
		`planekit: the last list has [1-9]\d{5,6} bytes`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("nothing like %s in\n%s", want, &out)
		}
	}
}

func TestMedian(t *testing.T) {
	rounds := []figures{
		{perSecond: 30, p50: 1, p99: 30, cpu: 3},
		{perSecond: 10, p50: 2, p99: 20, cpu: 1},
		{perSecond: 20, p50: 3, p99: 10, cpu: 2},
	}
	if got, want := median(rounds), (figures{perSecond: 20, p50: 2, p99: 20, cpu: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestReport: the ratios are planekit's work to kube-apiserver's, and
// kube-apiserver's cost to planekit's; what was too short to measure has none.
func TestReport(t *testing.T) {
	r := row{name: "get pod", clients: 64}
	r.add(planekitInside, figures{perSecond: 400, cpu: time.Millisecond})
	r.add(planekitOutside, figures{perSecond: 300, p50: 12 * time.Millisecond, p99: 20 * time.Millisecond, cpu: time.Millisecond})
	r.add(stock, figures{perSecond: 100, cpu: 5 * time.Millisecond})
	var out strings.Builder
	printRequests(&out, []kind{planekitInside, planekitOutside, stock}, []row{r})
	for _, want := range []string{"| get pod | 64 | 400/s,", "| 300/s, 12 / 20 ms, 1.00 ms |", "| 3.0 | 5.0 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if got := ratio(1, 0); got != "n/a" {
		t.Errorf("a ratio to nothing is %s", got)
	}
}
