package localcache_test

import (
	"fmt"

	"github.com/planekit/planekit/localcache"
)

type lamp struct{ room, color string }

// count accepts the smallest interface that can list objects.
func count(lamps localcache.Lister[*lamp]) (n int) {
	for range lamps.All() {
		n++
	}
	return n
}

func Example() {
	lamps := localcache.NewMapFunc(func(l *lamp) string { return l.room }, &lamp{"hall", "red"})
	byColor := localcache.Scan(lamps, func(l *lamp) []string { return []string{l.color} })
	defer lamps.Subscribe(func(old, new *lamp) {
		switch {
		case old == nil:
			fmt.Println(new.room, "is", new.color)
		case new == nil:
			fmt.Println(old.room, "is gone")
		default:
			fmt.Println(new.room, "was", old.color, "and is", new.color)
		}
	}).Stop()

	lamps.Put(&lamp{"attic", "blue"})
	lamps.Put(&lamp{"hall", "blue"})
	for l := range byColor.Get("red") {
		fmt.Println("still red:", l.room)
	}
	lamps.Delete("attic")
	fmt.Println(count(lamps))
	// Output:
	// hall is red
	// attic is blue
	// hall was red and is blue
	// attic is gone
	// 1
}
