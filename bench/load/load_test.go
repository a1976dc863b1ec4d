package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain runs the floor's server if this program was started for it.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"-floor"}) {
		if err := serveFloor(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestShort runs the short form of the whole program, without the stock server, which takes minutes
// to build.
func TestShort(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"-short", "-sides", "planekit,inside", "-most", "50000"})
	if err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	const cell = `[1-9][\d.]*/s, [\d.]+ / [\d.]+ ms, [\d. +]+ ms \|`
	for _, want := range []string{
		`\| apiserver \| \d+\.\d \| \d+ \|`,
		`\| apiserver-noembed \| [23]\d\.\d \| \d+ \|`,
		`\| API server binary, stripped \| at most 30 MB \| [\d.]+ MB \| (reached|missed by \d+ %) \|`,
		`\| planekit, memory \| \d\.\d+ s \|`,
		`\| planekit, etcd inside \| [\d.]+ ms \| [\d.]+ ms \|`,
		`\| create pod \| 64 \| ` + cell,
		`\| get pod, resourceVersion=0 \| 8 \| ` + cell,
		`\| list 1000 pods, Table \| 4 \| ` + cell,
		`planekit: the last answer \(list 1000 pods, Table, resourceVersion=0\) has [1-9]\d{5,6} bytes`,
		`\| 1000 \| 100, full speed \| [\d.]+ s \| [\d.]+ / [\d.]+ ms, \d+/s, [\d.]+ s \|`,
		`\| 1 \| 30, 100/s \|[^|]*\|[^|]* ms, (10\d|\d?\d\.\d)/s`, // and no faster
		`\| 1000 \| 10, 25/s \| [\d.]+ s \| `,
		`\| 5000 \| \d+ MiB \| \d+ MiB \|`,
		`planekit: a list of all 5000 in protobuf takes [\d.]+ ms .* in all forms: [1-9]\d+ MiB`,
		`\| 5000 \| \d+/s \| [\d.]+ ms \| \d+ MiB \| [\d.]+ KiB \| [\d.]+ ms \| [\d.]+ ms \| [\d.]+ us \|`,
		`\| 1000 \| [\d.]+ us \| [\d.]+ us \| [\d.]+ us \| [\d.]+ us \| \d+/s \|`,
		`\| memory idle \| at most 40 MiB \| [\d.]+ MiB \|`,
		`\d+ figures not measured in this run`, // the comparisons
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("nothing like %s in\n%s", want, &out)
		}
	}
}

// TestChoice: only the requested sections are measured and profiled.
func TestChoice(t *testing.T) {
	profiles := filepath.Join(t.TempDir(), "profiles")
	var out bytes.Buffer
	o, err := parse([]string{"-short", "-sides", "inside", "-only", "get,list", "-operations", "get pod, 8 clients", "-profile", profiles})
	if err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| .* \| .*/s, `).FindAllString(out.String(), -1)
	if len(rows) != 1 || !strings.HasPrefix(rows[0], "| get pod | 8 |") {
		t.Errorf("measure writes the rows %q, want one, which begins with \"| get pod | 8 |\"", rows)
	}
	if info, err := os.Stat(filepath.Join(profiles, "requests-inside.prof")); err != nil || info.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
}

// TestStartFails: if a server does not start, the error has its output.
func TestStartFails(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "apiserver"), []byte("#!/bin/sh\necho the disk is gone; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-short", "-sides", "inside", "-only", "create", "-bin", bin})
	if err != nil {
		t.Fatal(err)
	}
	err = measure(t.Context(), o, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "requests: start planekit, etcd inside: ") || !strings.Contains(err.Error(), "the disk is gone") {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	for arguments, want := range map[string]string{
		"-only create,flight": `-only: there is no section "flight"`,
		"-sides etcd":         `-sides: there is no server "etcd"`,
		"-operations (":       "-operations: error parsing regexp",
		"more":                `unexpected argument "more"`,
	} {
		if _, err := parse(strings.Fields(arguments)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
	o, err := parse([]string{"-sides", "kube-apiserver,planekit", "-rounds", "0", "-only", "memory"})
	if err != nil || !slices.Equal(o.sides, []kind{stock, planekitOutside}) || o.rounds != 1 || !slices.Equal(o.only, []string{"memory"}) {
		t.Errorf("parse(-sides kube-apiserver,planekit -rounds 0 -only memory) = %+v, %v, want the sides %v, 1 round, only memory",
			o, err, []kind{stock, planekitOutside})
	}
}

func TestInTurn(t *testing.T) {
	a, b, c := new(side), new(side), new(side)
	sides := []*side{a, b, c}
	if !slices.Equal(inTurn(sides, 0), sides) || !slices.Equal(inTurn(sides, 1), []*side{c, b, a}) || sides[0] != a {
		t.Error("not every other time the reverse")
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
	if got := median(nil); got != (figures{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestRatio: ratios compare the same round, because the machine may be slower in another.
func TestRatio(t *testing.T) {
	var r row
	for _, round := range [][2]float64{{400, 100}, {40, 20}, {90, 30}} {
		r.add(planekitOutside, figures{perSecond: round[0]})
		r.add(stock, figures{perSecond: round[1]})
	}
	if got := r.ratio(planekitOutside, stock, throughput); got != 3 {
		t.Errorf("%v, want 3: the rounds make 4, 2 and 3", got)
	}
	if got := r.ratio(planekitOutside, planekitInside, throughput); !math.IsNaN(got) {
		t.Errorf("%v to a server that was not measured", got)
	}
}

// TestReport: the ratios are planekit's throughput to kube-apiserver's, and kube-apiserver's cost
// to planekit's. A measurement that was too short has no ratio.
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
	for _, none := range []float64{math.NaN(), math.Inf(1), 0} {
		if got := ratio(none); got != "n/a" {
			t.Errorf("%v is %s", none, got)
		}
	}
}
