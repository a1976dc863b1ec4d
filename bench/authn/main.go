// Command authn measures authentication by planekit's authenticators and by kube-apiserver's
// (k8s.io/apiserver), in one process and with the same requests.
//
//	cd bench && go run ./authn
//
// Rounds of the two alternate; the table has their medians.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"
)

// ask authenticates one fixed request.
type ask func() error

// pair is one line of the table.
type pair struct {
	name         string
	ours, theirs ask
}

func main() {
	rounds := flag.Int("rounds", 15, "rounds of each side, of which the medians are told")
	requests := flag.Int("requests", 20_000, "requests in each round")
	flag.Parse()
	if err := run(os.Stdout, *rounds, *requests); err != nil {
		log.Fatal(err)
	}
}

// run prints the table.
func run(out io.Writer, rounds, requests int) error {
	pairs, err := pairs()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| who asks | planekit | k8s.io/apiserver | k8s.io/apiserver : planekit |\n|---|---|---|---|")
	for _, p := range pairs {
		var took [2][]time.Duration
		for range rounds {
			for i, a := range []ask{p.ours, p.theirs} {
				each, err := measure(a, requests)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				took[i] = append(took[i], each)
			}
		}
		slices.Sort(took[0])
		slices.Sort(took[1])
		a, b := took[0][rounds/2], took[1][rounds/2]
		fmt.Fprintf(out, "| %s | %v | %v | %.1f |\n", p.name, a, b, float64(b)/float64(a))
	}
	return nil
}

func measure(a ask, n int) (time.Duration, error) {
	runtime.GC() // of the garbage from before
	start := time.Now()
	for range n {
		if err := a(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

// bearing returns a request with a bearer token.
func bearing(token string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, "https://localhost/api/v1/pods", http.NoBody)
	if err != nil {
		panic(err) // the request is constant
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}
