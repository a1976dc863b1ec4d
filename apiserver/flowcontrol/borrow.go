package flowcontrol

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// leastTarget replaces smaller targets, so that a claim without demand still has a
// part of what no other level needs.
const leastTarget = 0.001

// claim holds what one level needs of the seats that are divided.
type claim struct{ lower, upper, target float64 }

func (c claim) at(fraction float64) float64 {
	return min(max(fraction*max(c.target, leastTarget), c.lower), c.upper)
}

// divide divides total among claims: each has the same fraction of its target, within
// its bounds. It fails if the bounds do not allow the total.
func divide(total float64, claims []claim) (parts []float64, err error) {
	const precision = 1e-7
	var lower, upper float64
	var bends []float64 // where the sum of the parts, as a function of the fraction, bends
	for _, c := range claims {
		if c.lower < 0 || c.upper < c.lower || c.target < c.lower {
			return nil, fmt.Errorf("flowcontrol: contradictory claim %+v", c)
		}
		lower += c.lower
		upper += c.upper
		target := max(c.target, leastTarget)
		bends = append(bends, c.lower/target, c.upper/target)
	}
	if lower-total > precision || total-upper > precision {
		return nil, fmt.Errorf("flowcontrol: %v is not between %v and %v, the sums of the bounds", total, lower, upper)
	}
	slices.Sort(bends)
	sum := func(fraction float64) (sum float64) {
		for _, c := range claims {
			sum += c.at(fraction)
		}
		return sum
	}
	fraction := 0.0
	if i := sort.Search(len(bends), func(i int) bool { return sum(bends[i]) >= total }); i < len(bends) {
		fraction = bends[i]
		if i > 0 {
			// The sum is a straight line between two bends.
			from, have, next := bends[i-1], sum(bends[i-1]), sum(bends[i])
			if next > have {
				fraction = from + (fraction-from)*(total-have)/(next-have)
			}
		}
	} else if len(bends) > 0 {
		fraction = bends[len(bends)-1]
	}
	for _, c := range claims {
		parts = append(parts, c.at(fraction))
	}
	return parts, nil
}

// need is one level when seats are divided.
type need struct {
	Limits
	Demand
	exempt bool
}

// floor is the number of seats that the level is not asked to lend now.
func (n *need) floor() int { return max(n.Min, min(n.Nominal, n.High)) }

// allot returns the current limit of each level. An exempt level has what it uses. Each
// other level keeps its floor and shares the sum of all nominal limits with the others
// in proportion to demand. If the exempt level leaves less than the sum of the floors,
// levels get between their minimum and their floor.
func allot(needs []need) []int {
	out := make([]int, len(needs))
	var claims []claim
	var total, left, minimum, floors int
	for i := range needs {
		total += needs[i].Nominal
	}
	left = total
	for i := range needs {
		n := &needs[i]
		if n.exempt {
			left -= max(n.Min, n.High)
			continue
		}
		floor := float64(n.floor())
		claims = append(claims, claim{floor, float64(n.Max), max(floor, n.Smoothed)})
		minimum += n.Min
		floors += n.floor()
	}
	var parts []float64
	if left > floors {
		parts, _ = divide(float64(total), claims) // without parts no level borrows
	}
	for i := range needs {
		n := &needs[i]
		switch {
		case n.exempt:
			out[i] = max(n.Min, n.High)
		case left <= minimum:
			out[i] = n.Min
		case left <= floors:
			fraction := float64(left-minimum) / float64(floors-minimum)
			out[i] = n.Min + int(math.Round(float64(n.floor()-n.Min)*fraction))
		case parts == nil:
			out[i] = n.Nominal
		default:
			out[i], parts = int(math.Round(parts[0])), parts[1:]
		}
	}
	return out
}
