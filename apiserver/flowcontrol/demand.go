package flowcontrol

import (
	"math"
	"time"
)

// integrator measures how many seats a level needs over time.
type integrator struct {
	since, at time.Duration
	value     int
	// high is the largest value since then. sum and squares are integrals over time.
	high         int
	sum, squares float64
}

func (i *integrator) passTo(now time.Duration) {
	if now <= i.at {
		return
	}
	x, seconds := float64(i.value), (now - i.at).Seconds()
	i.sum += x * seconds
	i.squares += x * x * seconds
	i.at = now
}

func (i *integrator) set(value int) {
	i.value = value
	i.high = max(i.high, value)
}

// reset adds the period that ends now to d and begins another.
func (i *integrator) reset(d *Demand) {
	d.High = i.high
	if seconds := (i.at - i.since).Seconds(); seconds > 0 {
		d.Average = i.sum / seconds
		d.Deviation = math.Sqrt(max(0, i.squares/seconds-d.Average*d.Average))
		envelope := d.Average + d.Deviation
		d.Smoothed = max(envelope, smoothing*d.Smoothed+(1-smoothing)*envelope)
	}
	*i = integrator{since: i.at, at: i.at, value: i.value, high: i.value}
}

// smoothing halves the weight of an old peak in five minutes of adjustments every ten
// seconds.
const smoothing = 0.977

// Demand is the number of seats that a level has needed.
type Demand struct {
	// High is the maximum, Average the mean and Deviation the standard deviation over
	// the last period. Smoothed follows Average+Deviation up at once and down slowly.
	High                         int
	Average, Deviation, Smoothed float64
}
