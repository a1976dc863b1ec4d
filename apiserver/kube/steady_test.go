package kube_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

// TestSteadyColumns asks every column of random objects twice, a month apart:
// those that say they are steady have the same to say.
func TestSteadyColumns(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill := kindtest.Filler(seed)
	passing := 0
	synctest.Test(t, func(t *testing.T) {
		for _, r := range kube.Resources() {
			for range 20 {
				obj := r.New()
				fill.Fill(obj)
				first := make([]any, len(r.Columns))
				for i, c := range r.Columns {
					first[i] = c.Value(obj)
				}
				time.Sleep(30 * 24 * time.Hour)
				for i, c := range r.Columns {
					switch now := c.Value(obj); {
					case now == first[i]:
					case c.Steady:
						t.Errorf("%s: %s is steady and was %v, now %v", r.Plural, c.Name, first[i], now)
					default:
						passing++
					}
				}
			}
		}
	})
	if passing == 0 {
		t.Error("time passes nowhere")
	}
}
