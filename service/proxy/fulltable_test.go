package proxy

import (
	"testing"
	"time"
)

func TestFullTableIsSaidOnceAMinute(t *testing.T) {
	var f fullTable
	now := time.Now()
	for _, step := range []struct {
		count uint64
		after time.Duration
		news  bool
	}{{949, 0, false}, {950, 0, true}, {1000, 59 * time.Second, false}, {1000, time.Minute, true}, {10, 5 * time.Minute, false}} {
		if f.isNews(step.count, 1000, now.Add(step.after)) != step.news {
			t.Errorf("%d of 1000 connections after %v: news is not %v", step.count, step.after, step.news)
		}
	}
}
