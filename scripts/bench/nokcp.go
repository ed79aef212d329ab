//go:build nokcp

package main

import "errors"

const haveKCP = false

func newKCP(bool) (conv, error) {
	return nil, errors.New("this benchmark was built without kcp-go, which could not be downloaded")
}
