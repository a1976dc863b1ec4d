package images

import (
	"context"
	"fmt"
	"time"
)

// A pull ends when less than the smaller of these is left of the images' file system. A registry can
// send a layer without end, or one that grows when it is unpacked, and the runtime bounds neither.
const (
	roomPart  = 20      // a twentieth of the file system
	roomBytes = 1 << 30 // 1 GiB
)

// roomPeriod is the interval at which the room is measured.
const roomPeriod = 200 * time.Millisecond

// NoRoomError is an error of a pull that has used the room of the images' file system, in bytes.
type NoRoomError struct{ Available, Least int64 }

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("the pull was ended because it leaves %d bytes of the file system of images, and at least %d must be free", e.Available, e.Least)
}

// KeepRoom returns a context for a pull, and a function that the caller must call after it. The context
// ends with a [*NoRoomError] as its cause when fileSystem, which returns capacity and room in bytes,
// says that too little is left. A fileSystem that returns an error ends no pull.
func KeepRoom(ctx context.Context, fileSystem func() (capacity, available int64, err error)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(roomPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			capacity, available, err := fileSystem()
			if least := min(capacity/roomPart, roomBytes); err == nil && available < least {
				cancel(&NoRoomError{Available: available, Least: least})
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}
