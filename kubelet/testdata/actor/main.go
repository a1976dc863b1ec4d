// Command actor runs in the containers of the kubelet's tests. Without arguments it waits for TERM.
// "fail" writes a termination message and exits with 7. "tell" waits like the first, but writes its
// view of the environment into its termination message. "chatter" prints numbers. "fill FILE" waits
// like the first when the disk is full. Two other arguments are a command of a probe or a
// hook: "exists FILE" fails if there is no such file, "make FILE" makes it, "hang FILE" does not end
// while it exists.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) == 3 && os.Args[1] == "fill" {
		fill(os.Args[2])
		<-stop
		return
	}
	if len(os.Args) == 3 {
		command(os.Args[1], os.Args[2])
		return
	}
	fmt.Println("hello from the actor")
	switch strings.Join(os.Args[1:], " ") {
	case "fail":
		say("it went wrong")
		os.Exit(7)
	case "chatter":
		go func() {
			for i := 0; ; i++ {
				if i%1000 == 0 {
					time.Sleep(50 * time.Millisecond)
				}
				fmt.Println(i)
			}
		}()
	case "tell":
		conf, err := os.ReadFile("/etc/conf/a.conf")
		if err != nil {
			say(err.Error())
			os.Exit(1)
		}
		if err := os.WriteFile("/scratch/file", conf, 0o600); err != nil {
			say(err.Error())
			os.Exit(1)
		}
		say(fmt.Sprintf("name=%s conf=%s", os.Getenv("NAME"), conf))
	}
	<-stop
}

// fill writes to a file until the disk is full.
func fill(path string) {
	file, err := os.Create(path)
	for err == nil {
		_, err = file.Write(make([]byte, 1<<20))
	}
	fmt.Println(err)
}

func command(name, file string) {
	_, err := os.Stat(file)
	switch name {
	case "exists":
	case "make":
		err = os.WriteFile(file, nil, 0o600)
	case "hang":
		for err == nil {
			time.Sleep(10 * time.Millisecond)
			_, err = os.Stat(file)
		}
		err = nil
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func say(words string) {
	if err := os.WriteFile("/dev/termination-log", []byte(words), 0o600); err != nil {
		fmt.Println(err)
	}
}
