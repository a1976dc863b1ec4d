package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
)

// sample is the state of the cluster at one time.
type sample struct {
	at     time.Duration
	stage  stage
	life   int // number of starts of the cluster, from 1
	values map[measure]float64
}

// measure is a quantity of a sample.
type measure string

const (
	resident   measure = "resident MiB"
	live       measure = "live heap MiB" // not in every sample
	goroutines measure = "goroutines"
	files      measure = "open files"
	disk       measure = "disk MiB" // without the log
	walog      measure = "log MiB"  // etcd's write-ahead log, with the prepared segments
	database   measure = "database MiB"
)

var measures = []measure{resident, live, goroutines, files, disk, walog, database}

// liveEvery is the number of samples for each forced collection.
const liveEvery = 6

const mib = 1 << 20

// samples holds the samples of a run.
type samples struct {
	mu  sync.Mutex // guards the following fields
	all []sample
}

// sampleEvery takes samples until ctx is done, except while the cluster is down.
func (s *soak) sampleEvery(ctx context.Context) {
	for i := 0; sleep(ctx, s.options.sample) == nil; i++ {
		if s.down.Load() {
			continue
		}
		life := s.child.life()
		values, err := s.measure(ctx, i%liveEvery == liveEvery-1)
		if err != nil || s.down.Load() || s.child.life() != life {
			continue
		}
		s.samples.add(sample{time.Since(s.began), s.stage.Load().(stage), life, values})
		if i%liveEvery == 0 { // for an operator who follows the run
			_ = s.samples.write(s.options.csv())
		}
	}
}

func (s *samples) add(one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// measure returns the values of a sample.
func (s *soak) measure(ctx context.Context, collect bool) (map[measure]float64, error) {
	values := map[measure]float64{}
	p := s.child.running()
	var err error
	if values[resident], err = p.Resident(); err != nil {
		return nil, err
	}
	opened, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
	if err != nil {
		return nil, err
	}
	values[files] = float64(len(opened))
	values[disk], values[walog], values[database] = usage(filepath.Join(s.options.out, "data"))
	if collect {
		if _, err := s.child.api.Do(ctx, client.Request{Path: "/debug/pprof/heap", Query: map[string][]string{"gc": {"1"}}, Accept: "*/*"}); err != nil {
			return nil, err
		}
	}
	response, err := s.child.api.Do(ctx, client.Request{Path: "/metrics", Accept: "*/*"})
	if err != nil {
		return nil, err
	}
	values[goroutines] = metric(response.Body, "go_goroutines")
	if collect {
		values[live] = metric(response.Body, "go_memstats_heap_alloc_bytes") / mib
	}
	return values, nil
}

// running returns the process of the cluster.
func (c *child) running() *peer.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// metric reads a value without labels from Prometheus' text format.
func metric(text []byte, name string) float64 {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			f, _ := strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
			return f
		}
	}
	return 0
}

// usage returns the disk usage of the files below dir, without and of etcd's log, and the size of
// etcd's database, in MiB. Files that disappear meanwhile do not count.
func usage(dir string) (others, walog, database float64) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			size := float64(stat.Blocks) * 512 / mib
			if filepath.Base(filepath.Dir(path)) == "wal" {
				walog += size
			} else {
				others += size
			}
			if entry.Name() == "db" { // without the space reserved behind its end
				database += float64(info.Size()) / mib
			}
		}
		return nil
	})
	return others, walog, database
}

// write writes the samples to a CSV file.
func (s *samples) write(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	head := []string{"seconds", "stage", "life"}
	for _, m := range measures {
		head = append(head, string(m))
	}
	rows := [][]string{head}
	for _, one := range s.all {
		row := []string{fmt.Sprintf("%.1f", one.at.Seconds()), string(one.stage), strconv.Itoa(one.life)}
		for _, m := range measures {
			value := ""
			if v, ok := one.values[m]; ok {
				value = strconv.FormatFloat(v, 'f', 1, 64)
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	return w.WriteAll(rows)
}
