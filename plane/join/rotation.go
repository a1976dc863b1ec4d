package join

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// checkEvery is the time between two looks at the addresses of the node and at the files.
	checkEvery = 10 * time.Second
	// issueTimeout bounds the wait for a certificate, as in a kubelet. A new request follows.
	issueTimeout = 15 * time.Minute
	// firstRetry and lastRetry bound the delay after a failure.
	firstRetry, lastRetry = time.Second, 5 * time.Minute
	// A certificate is renewed when a part of its life between earliest and latest is over.
	earliest, latest = 0.7, 0.9
)

// Run keeps both certificates good until ctx ends, and returns nil. Join must have returned without an
// error.
func (j *Joiner) Run(ctx context.Context) error {
	if j.currentAuthority() == nil {
		return errors.New("join: Run without Join")
	}
	var both sync.WaitGroup
	both.Go(func() { j.keep(ctx, "client", &j.client, j.renewClient, nil) })
	if j.config.Addresses != nil {
		both.Go(func() { j.keep(ctx, "serving", &j.serving, j.renewServing, j.servingLacks) })
	}
	both.Wait()
	return nil
}

// errNoAddresses means that the node has no addresses to put into a serving certificate yet.
var errNoAddresses = errors.New("the node has no addresses")

// keep renews one certificate. lacks, which may be nil, reports whether the current one is of no use
// although it is valid.
func (j *Joiner) keep(ctx context.Context, kind string, c *certificate, renew func(context.Context) error, lacks func(*pair) bool) {
	log := j.config.Log.WithValues("certificate", kind)
	var planned *pair
	var due time.Time
	for retry := firstRetry; ctx.Err() == nil; {
		have := c.get()
		if have != planned {
			planned, due = have, renewal(have)
		}
		if have != nil && time.Now().Before(due) && (lacks == nil || !lacks(have)) {
			j.repair(c, have)
			retry = firstRetry
			sleep(ctx, min(time.Until(due), checkEvery))
			continue
		}
		err := renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoAddresses):
			sleep(ctx, firstRetry)
		case err != nil:
			log.Error(err, "the certificate is not renewed yet")
			sleep(ctx, retry/2+rand.N(retry))
			retry = min(2*retry, lastRetry)
		default:
			log.Info("the certificate was renewed", "until", c.current().Leaf.NotAfter)
		}
	}
}

// renewal returns when to renew a certificate.
func renewal(p *pair) time.Time {
	if p == nil {
		return time.Time{}
	}
	leaf := p.tls.Leaf
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(time.Duration(float64(life) * (earliest + (latest-earliest)*rand.Float64())))
}

// repair writes the file of a certificate again if its contents are others.
func (j *Joiner) repair(c *certificate, have *pair) {
	read, err := c.read()
	if err == nil && bytes.Equal(read.pem, have.pem) {
		return
	}
	reason := "it has another certificate"
	if err != nil {
		reason = err.Error()
	}
	j.config.Log.Info("the file of a certificate is written again", "file", c.file, "reason", reason)
	if err := c.replace(have); err != nil {
		j.config.Log.Error(err, "the file of a certificate cannot be written", "file", c.file)
	}
}

// renewClient asks for a client certificate by the current one, or by the token if that has expired.
func (j *Joiner) renewClient(ctx context.Context) error {
	if expired := j.client.current().Leaf.NotAfter; time.Now().After(expired) {
		if err := j.join(ctx); err != nil {
			return fmt.Errorf("the client certificate expired at %s, and the token does not help: %w", stamp(expired), err)
		}
		return nil
	}
	return j.renew(ctx, &j.client, j.clientTerms())
}

func (j *Joiner) renewServing(ctx context.Context) error {
	t, ok := j.servingTerms()
	if !ok {
		return errNoAddresses
	}
	return j.renew(ctx, &j.serving, t)
}

// servingLacks reports whether the node has names or addresses that a certificate lacks.
func (j *Joiner) servingLacks(have *pair) bool {
	t, ok := j.servingTerms()
	return ok && !t.covered(have.tls.Leaf)
}

// renew asks for a certificate by the current client certificate.
func (j *Joiner) renew(ctx context.Context, c *certificate, t terms) error {
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	api, err := j.connect(j.currentAuthority(), j.client.current(), "")
	if err != nil {
		return err
	}
	defer api.Close()
	p, err := j.obtain(ctx, api, false, t)
	if err != nil {
		return err
	}
	return c.replace(p)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
