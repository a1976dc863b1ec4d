// Command rbac times decisions of planekit's RBAC and of k8s.io/kubernetes' over client-go's
// listers, in one process on the same objects, and prints a Markdown table. compat/rbac tests that
// both decide alike.
//
//	go run ./rbac
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/planekit/planekit/authz"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func main() {
	decisions := flag.Int("decisions", 20_000, "timed decisions of planekit for each size")
	budget := flag.Duration("budget", 3*time.Second, "longest time for the stock decisions of one size")
	flag.Parse()
	if err := run(*decisions, *budget); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(decisions int, budget time.Duration) error {
	fmt.Println("| bindings | planekit median | p99 | stock median | p99 | stock / planekit |")
	fmt.Println("|---:|---:|---:|---:|---:|---:|")
	for _, n := range []int{10, 1000, 10_000, 50_000} {
		c, err := newComparison(n)
		if err != nil {
			return err
		}
		own, stock, err := c.measure(decisions, budget)
		c.stop()
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %v | %v | %v | %v | %.0f |\n", n, quantile(own, 0.5), quantile(own, 0.99), quantile(stock, 0.5), quantile(stock, 0.99),
			float64(quantile(stock, 0.5))/float64(quantile(own, 0.5)))
	}
	return nil
}

// comparison is both authorizers over one policy, with questions for them.
type comparison struct {
	*sides
	requests []authz.Attributes
	asStock  []authorizer.Attributes
}

// newComparison returns a comparison over n bindings, half of them in the whole cluster and half in
// a hundred namespaces, each for a user of its own. The questions are about some of the users.
func newComparison(n int) (*comparison, error) {
	s, err := newSides(manyBindings(n))
	if err != nil {
		return nil, err
	}
	c := &comparison{sides: s, requests: questions(n)}
	for _, q := range c.requests {
		c.asStock = append(c.asStock, forStock(q))
	}
	return c, nil
}

// measure asks both alternately, so that other work of the machine affects both alike.
func (c *comparison) measure(decisions int, budget time.Duration) (own, stock []time.Duration, err error) {
	ctx := context.Background()
	var spent time.Duration
	for len(own) < decisions {
		for i, q := range c.requests {
			start := time.Now()
			d, _, _ := c.own.Authorize(ctx, q)
			own = append(own, time.Since(start))
			if d != authz.Allow {
				return nil, nil, fmt.Errorf("planekit refuses %+v", q)
			}
			if spent > budget {
				continue
			}
			start = time.Now()
			ds, _, _ := c.stock.Authorize(ctx, c.asStock[i])
			stock = append(stock, time.Since(start))
			spent += stock[len(stock)-1]
			if ds != authorizer.DecisionAllow {
				return nil, nil, fmt.Errorf("stock refuses %+v", q)
			}
		}
	}
	return own, stock, nil
}

func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(q*float64(len(sorted)-1))].Round(10 * time.Nanosecond)
}
