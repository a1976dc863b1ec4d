package informer_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/informer"
)

type lamp struct{ room, color, revision string }

// shop is a Source with three lamps, one of which changes.
type shop struct{}

func (shop) Sync(ctx context.Context, _ string, sink informer.Sink[*lamp]) error {
	sink.Replace("3", []*lamp{{"hall", "red", "1"}, {"kitchen", "red", "2"}, {"attic", "blue", "3"}})
	sink.Put("4", &lamp{"attic", "red", "4"})
	<-ctx.Done()
	return ctx.Err()
}

func Example() {
	lamps, err := informer.New(informer.Config[*lamp]{
		Source:   shop{},
		Key:      func(l *lamp) string { return l.room },
		Revision: func(l *lamp) string { return l.revision },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	byColor := informer.NewIndex(lamps, func(l *lamp) []string { return []string{l.color} })

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- lamps.Run(ctx) }()

	if err := lamps.WaitFor(ctx, "4"); err != nil {
		fmt.Println(err)
	}
	red := 0
	for range byColor.Get("red") {
		red++
	}
	attic, _ := lamps.Get("attic")
	fmt.Println(attic.color, red)

	cancel()
	fmt.Println(<-done)
	// Output:
	// red 3
	// <nil>
}
