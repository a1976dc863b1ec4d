// Command extender puts pods where power is cheap, for any scheduler that asks extenders: it refuses nodes
// in zones without a price, and prefers zones with a low one.
//
//	extender 127.0.0.1:8888 prices.json # {"north": 2, "south": 7}
//
// A scheduler reaches it with
//
//	extender.Config{URLPrefix: "http://127.0.0.1:8888", FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 5}
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	corev1 "k8s.io/api/core/v1"
)

// prices holds a price from 0 to 10 for each zone.
type prices map[string]int64

func (p prices) filter(_ *corev1.Pod, n *corev1.Node) schedule.Verdict {
	if _, ok := p[n.Labels[corev1.LabelTopologyZone]]; !ok {
		return schedule.RefuseAlways("node(s) were in a zone without power")
	}
	return schedule.Fits
}

func (p prices) prioritize(_ *corev1.Pod, n *corev1.Node) int64 {
	return extender.MaxScore - p[n.Labels[corev1.LabelTopologyZone]]
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: extender ADDRESS FILE")
	}
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	var p prices
	if err := json.Unmarshal(data, &p); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr: os.Args[1], ReadHeaderTimeout: 5 * time.Second,
		Handler: extender.Handler{Filter: p.filter, Prioritize: p.prioritize},
	}
	log.Fatal(server.ListenAndServe())
}
